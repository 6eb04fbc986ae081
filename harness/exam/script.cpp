#include "harness/exam/script.hpp"

#include <algorithm>
#include <chrono>
#include <iterator>

#include <fmt/format.h>

#include "harness/core/clock.hpp"
#include "harness/core/error.hpp"

namespace assay {
namespace {

using Tensors = std::vector<HostTensor>;

// More runs with pauses, if the first two runs differ: how far the program's roundings take it.
constexpr int spread_runs = 2;
// Steps of dropout that are compared by their loss, and of these, those that are compared by all that they update.
constexpr std::int64_t draws = 3, kept_states = 2;

// A copy in which about half of the elements, drawn from the seed, are a rounding nearer to zero.
Tensors nudged(Tensors state, int seed) {
  for (HostTensor& tensor : state) {
    if (tensor.type.dtype != DType::f32) continue;  // f64 under fp64
    Philox random(static_cast<std::uint64_t>(seed), "exam/continuation/" + tensor.name);
    nudge(tensor.as<float>(), 2, random);
  }
  return state;
}

// Masks to supply: what was 0 before the dropout stays 0, whether it is kept or not.
Tensors filled(Tensors masks) {
  for (HostTensor& mask : masks)
    for (std::byte& kept : mask.bytes) kept = std::byte{kept != std::byte{0}};
  return masks;
}

// Several (B, 1, classes) as one (B, positions, classes).
HostTensor side_by_side(const Tensors& positions) {
  TensorType type = positions.front().type;
  const std::size_t row = positions.front().bytes.size() / static_cast<std::size_t>(type.shape.front());
  type.shape[1] = static_cast<std::int64_t>(positions.size());
  HostTensor all = HostTensor::zeros("logits", type);
  for (std::size_t p = 0; p < positions.size(); ++p) {
    for (std::size_t sample = 0; sample < static_cast<std::size_t>(type.shape.front()); ++sample) {
      std::copy_n(positions[p].bytes.begin() + static_cast<std::ptrdiff_t>(sample * row), row,
                  all.bytes.begin() + static_cast<std::ptrdiff_t>((sample * positions.size() + p) * row));
    }
  }
  return all;
}

TensorView view_of(const HostTensor& tensor) {
  return {tensor.name.c_str(), &tensor.type, tensor.bytes.data()};
}

}  // namespace

void stack(std::vector<HostTensor>& all, const HostTensor& next, std::int64_t count) {
  const auto found = std::ranges::find(all, next.name, &HostTensor::name);
  HostTensor* tensor = found != all.end() ? &*found : nullptr;
  if (tensor == nullptr) {
    Shape shape = next.type.shape;
    shape.insert(shape.begin(), count);
    all.push_back({next.name, {next.type.dtype, shape}, {}});
    tensor = &all.back();
  }
  tensor->bytes.insert(tensor->bytes.end(), next.bytes.begin(), next.bytes.end());
}

ExamScript::ExamScript(const ExamFeeds& feeds, ExamSubject subject, ExamPart part, ExamOfRun run)
    : feeds_(feeds), subject_(std::move(subject)), part_(part), run_(run) {
  // An inference drops nothing.
  if (is_op() || trains()) masks_ = feeds.batch_masks();
  actions_ = script();
}

const ExamAction& ExamScript::next() {
  if (last_ == ExamAct::stage) buffer_.spoil();
  static constexpr ExamAction done{};
  if (!actions_.next()) return done;
  given_.clear();
  answer_ = 0;
  last_ = actions_.action().act;
  return actions_.action();
}

ExamActions ExamScript::script() {
  if (part_ == ExamPart::whole)
    for (ExamActions part = about_the_run(); part.next();) co_yield part.action();
  if (part_ == ExamPart::whole && has_masks())
    for (ExamActions part = is_op() ? op_as_timed() : dropout_as_timed(); part.next();)
      co_yield part.action();
  for (ExamActions part = compared(); part.next();) co_yield part.action();
  if (part_ == ExamPart::whole && has_masks()) {
    for (ExamActions part = is_op() ? op_with_masks() : dropout_with_masks(); part.next();)
      co_yield part.action();
    co_yield {.act = ExamAct::masks};  // a process that stays is timed again
  }
}

// ---- the run: before anything is set

ExamActions ExamScript::about_the_run() {
  if (feeds_.run) {
    co_yield {.act = ExamAct::results};
    add("run/last/", named_results());
    co_yield {.act = ExamAct::results_read};
    add("run/read/", named_results());
    Tensors again;
    const std::vector<std::int64_t>& slots = feeds_.run->slots;
    for (const std::int64_t slot : slots) {
      for (ExamActions part = computed(slot, 1); part.next();) co_yield part.action();
      for (const HostTensor& result : computed_)
        stack(again, result, static_cast<std::int64_t>(slots.size()));
    }
    add("run/", std::move(again));
  }
  if (feeds_.continuation)
    for (ExamActions part = continuation(); part.next();) co_yield part.action();
  if (trains() && run_.own_loader && run_.last_step) {
    co_yield {.act = ExamAct::own_loader};
    add("", std::move(given_));
  }
}

// "start" is the state after one step. "unwaited" continues without a pause, "waited" begins from a copy of that state
// and waits for each step. If the two differ, "near_1" and "near_2" do as "waited", from copies that are a rounding
// apart: they show how far roundings take the program.
ExamActions ExamScript::continuation() {
  const std::vector<std::int64_t>& slots = feeds_.batches.slots;
  // If each step gets its own batch, no batch of the run needs to be left. Then the exam has slot 0 several times; a run
  // with one resident batch has it once.
  const bool is_supplied =
      slots.size() > 1 && std::ranges::all_of(slots, [](std::int64_t slot) { return slot == 0; });
  if (!run_.last_step || is_supplied)
    for (std::int64_t batch = 0; batch < feeds_.batches.count(); ++batch) co_yield stage(batch);
  const auto begin = std::chrono::steady_clock::now();
  co_yield continued(0);
  co_yield {.act = ExamAct::synchronize};
  co_yield {.act = ExamAct::agree, .value = feeds_.continuation->steps(seconds_since(begin))};
  const std::int64_t steps = answer_;
  co_yield {.act = ExamAct::loss};
  add_number("continuation/steps", static_cast<double>(steps));
  add_number("continuation/loss", given_loss());

  co_yield {.act = ExamAct::state};
  const Tensors before = std::move(given_);
  hand_over("start", before);
  for (std::int64_t step = 1; step <= steps; ++step) co_yield continued(step);
  co_yield {.act = ExamAct::synchronize};
  co_yield {.act = ExamAct::state};
  const Tensors without_pause = std::move(given_);
  hand_over("unwaited", without_pause);

  start_ = before;
  for (ExamActions part = with_pauses(steps); part.next();) co_yield part.action();
  hand_over("waited", given_);
  const bool equal = std::ranges::equal(without_pause, given_, {}, &HostTensor::bytes, &HostTensor::bytes);
  co_yield {.act = ExamAct::agree, .value = equal ? 1 : 0};
  if (answer_ == 1) co_return;
  for (int run = 0; run < spread_runs; ++run) {
    start_ = nudged(before, run);
    for (ExamActions part = with_pauses(steps); part.next();) co_yield part.action();
    hand_over(fmt::format("near_{}", run + 1), given_);
  }
}

// From start_; leaves the state as what was given last.
ExamActions ExamScript::with_pauses(std::int64_t steps) {
  co_yield {.act = ExamAct::set_state, .tensors = start_};
  for (std::int64_t step = 1; step <= steps; ++step) {
    co_yield continued(step);
    co_yield {.act = ExamAct::synchronize};
  }
  co_yield {.act = ExamAct::state};
}

ExamAction ExamScript::continued(std::int64_t step) const {
  const std::vector<std::int64_t>& slots = feeds_.batches.slots;
  return {.act = ExamAct::step,
          .slot = in_turn_ > 0 ? (slots.front() + step) % in_turn_
                               : slots[static_cast<std::size_t>(step) % slots.size()],
          .step = run_.last_step.value_or(0) + 1 + step,
          .learning_rate = feeds_.learning_rate(1)};
}

void ExamScript::hand_over(const std::string& run, const Tensors& state) {
  for (const HostTensor& tensor : state) {
    answers_.push_back(handed(tensor));
    answers_.back().name = "continuation/" + run + "/" + tensor.name;
  }
}

// The elements of a tensor that the conductor reads, in F32.
HostTensor ExamScript::handed(const HostTensor& tensor) const {
  const std::int64_t size = tensor.type.elements();
  const std::optional<ExamExcerpt>& excerpt = feeds_.excerpt;
  const std::int64_t first = excerpt ? excerpt->first(size) : 0,
                     count = excerpt ? excerpt->count(size) : size;
  HostTensor chosen =
      HostTensor::zeros(tensor.name, {DType::f32, excerpt ? Shape{count} : tensor.type.shape});
  const auto copy = [&](const auto& values) {
    std::ranges::transform(values.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count)),
                           chosen.as<float>().begin(), [](auto value) { return static_cast<float>(value); });
  };
  if (tensor.type.dtype == DType::f64)
    copy(tensor.as<double>());
  else
    copy(tensor.as<float>());
  return chosen;
}

// ---- what the oracle answers, too

ExamActions ExamScript::compared() {
  // Without a dropout nothing tells the exam from a run.
  if (has_masks()) co_yield {.act = ExamAct::masks, .tensors = masks_};
  co_yield {.act = ExamAct::set_state, .tensors = feeds_.state};
  if (part_ == ExamPart::first_step) {
    for (ExamActions part = first_step(); part.next();) co_yield part.action();
    co_return;
  }
  // As many batches as there are slots, so that steps follow each other without staging in between.
  for (std::int64_t batch = 0; batch < feeds_.batches.count(); ++batch)
    for (ExamActions part = staged(batch); part.next();) co_yield part.action();
  for (ExamActions part = trains() ? training() : results_of_batches(); part.next();) co_yield part.action();
}

ExamActions ExamScript::staged(std::int64_t batch) {
  const std::int64_t slot = slot_of(batch);
  const auto held = held_.find(slot);
  if (held != held_.end() && held->second == batch) co_return;
  held_[slot] = batch;
  co_yield stage(batch);
}

ExamAction ExamScript::stage(std::int64_t batch) {
  buffer_.fill(feeds_.batch(batch));
  return {
      .act = ExamAct::stage, .slot = slot_of(batch), .inputs = buffer_.inputs(), .labels = buffer_.labels()};
}

// Row 0 of the schedule is a step on the first batch; the other rows use all batches in order.
std::int64_t ExamScript::batch_of(std::int64_t row) const {
  return row == 0 ? 0 : (row - 1) % feeds_.batches.count();
}

ExamAction ExamScript::row(std::int64_t row) const {
  return {.act = ExamAct::step,
          .slot = slot_of(batch_of(row)),
          .step = feeds_.step_count(row),
          .learning_rate = feeds_.learning_rate(row)};
}

ExamActions ExamScript::first_step() {
  for (ExamActions part = staged(0); part.next();) co_yield part.action();
  co_yield row(0);
  co_yield {.act = ExamAct::synchronize};
  co_yield {.act = ExamAct::loss};
  add_number("first/loss", given_loss());
  co_yield {.act = ExamAct::state};
  for (HostTensor& tensor : given_) tensor.name = under("first/", tensor.name);
  add("", std::move(given_));
}

ExamActions ExamScript::training() {
  first_batch_ = feeds_.batch(0);
  const ExamAction evaluation{.act = ExamAct::evaluate,
                              .inputs = view_of(first_batch_.inputs),
                              .labels = view_of(first_batch_.labels)};
  co_yield evaluation;
  add("evaluation/", std::move(given_));
  for (ExamActions part = first_step(); part.next();) co_yield part.action();

  co_yield {.act = ExamAct::set_state, .tensors = feeds_.state};
  for (std::int64_t step = 1; step <= feeds_.steps(); ++step) {
    for (ExamActions part = staged(batch_of(step)); part.next();) co_yield part.action();
    co_yield row(step);
  }
  co_yield {.act = ExamAct::synchronize};
  co_yield {.act = ExamAct::loss};
  add_number("last/loss", given_loss());
  co_yield {.act = ExamAct::state};
  for (HostTensor& tensor : given_) tensor.name = under("last/", tensor.name);
  add("", std::move(given_));
  co_yield evaluation;
  add("last/", std::move(given_));

  if (feeds_.extreme.empty()) co_return;
  start_ = feeds_.state;
  for (const HostTensor& tensor : feeds_.extreme)
    *std::ranges::find(start_, tensor.name, &HostTensor::name) = tensor;
  co_yield {.act = ExamAct::set_state, .tensors = start_};
  for (ExamActions part = staged(0); part.next();) co_yield part.action();
  co_yield row(0);
  co_yield {.act = ExamAct::synchronize};
  co_yield {.act = ExamAct::loss};
  add_number("extreme/loss", given_loss());
}

// The results of the timed step on each batch, one after the other.
ExamActions ExamScript::results_of_batches() {
  Tensors results;
  for (std::int64_t batch = 0; batch < feeds_.batches.count(); ++batch) {
    for (ExamActions part = staged(batch); part.next();) co_yield part.action();
    for (ExamActions part = computed(slot_of(batch), is_op() ? batch + 1 : 1); part.next();)
      co_yield part.action();
    for (const HostTensor& result : computed_) stack(results, result, feeds_.batches.count());
  }
  add("", std::move(results));
  if (!is_op()) co_return;
  co_yield {.act = ExamAct::state};
  add("running/", std::move(given_));
}

// Leaves the results of a step on a slot in computed_.
ExamActions ExamScript::computed(std::int64_t slot, std::int64_t step) {
  if (subject_.kind == ExamKind::decoding) {
    for (ExamActions part = generated(slot); part.next();) co_yield part.action();
    co_return;
  }
  co_yield {.act = ExamAct::step, .slot = slot, .step = step};
  co_yield {.act = ExamAct::synchronize};
  co_yield {.act = ExamAct::results};
  computed_ = named_results();
}

// The logits of the last token of each prompt and of the tokens after it: (B, 1 + tokens, classes).
ExamActions ExamScript::generated(std::int64_t slot) {
  Tensors positions;
  for (std::int64_t token = 0; token <= subject_.generated; ++token) {
    co_yield {.act = token == 0 ? ExamAct::prefill : ExamAct::next_token, .slot = slot};
    co_yield {.act = ExamAct::synchronize};
    co_yield {.act = ExamAct::results};
    const auto logits = std::ranges::find(given_, "logits", &HostTensor::name);
    if (logits == given_.end()) throw CellError("[exam] the worker gave no logits of a token");
    positions.push_back(std::move(*logits));
  }
  computed_.clear();
  computed_.push_back(side_by_side(positions));
}

// ---- dropout: the timed program draws its masks. Another program of the same network takes masks as data, and is
// compared with the oracle. Both do the same steps with the same masks.

ExamActions ExamScript::dropout_as_timed() {
  co_yield {.act = ExamAct::seed, .value = feeds_.step_count(0)};  // another one in each exam
  seeded_ = answer_ > 0;
  for (std::int64_t draw = 0; seeded_ && draw < draws; ++draw)
    for (ExamActions part = step_from_start(draw, timed_losses_, timed_states_); part.next();)
      co_yield part.action();
}

ExamActions ExamScript::step_from_start(std::int64_t draw, std::vector<double>& losses,
                                        std::vector<Tensors>& states) {
  const std::int64_t batch = draw % feeds_.batches.count();
  co_yield {.act = ExamAct::set_state, .tensors = feeds_.state};
  for (ExamActions part = staged(batch); part.next();) co_yield part.action();
  ExamAction step = row(0);
  step.slot = slot_of(batch);
  co_yield step;
  co_yield {.act = ExamAct::synchronize};
  co_yield {.act = ExamAct::loss};
  losses.push_back(given_loss());
  if (draw >= kept_states) co_return;
  co_yield {.act = ExamAct::state};
  states.push_back(handed_state());
}

ExamActions ExamScript::dropout_with_masks() {
  co_yield {.act = ExamAct::masks};
  if (seeded_) co_yield {.act = ExamAct::seed, .value = feeds_.step_count(0)};
  const std::int64_t next = feeds_.step_count(feeds_.steps()) + 1;
  for (std::int64_t draw = 0; draw < (seeded_ ? draws : 2); ++draw) {
    const std::int64_t batch = draw % feeds_.batches.count();
    co_yield {.act = ExamAct::set_state, .tensors = feeds_.state};
    for (ExamActions part = staged(batch); part.next();) co_yield part.action();
    co_yield {.act = ExamAct::draw, .slot = slot_of(batch), .step = next + draw};
    drawn_.push_back(std::move(given_));
  }
  add_stacked("draws/", {drawn_[0], drawn_[1]});
  if (!seeded_) co_return;

  std::vector<double> losses;
  std::vector<Tensors> states;
  for (std::int64_t draw = 0; draw < draws; ++draw) {
    start_ = filled(drawn_[static_cast<std::size_t>(draw)]);
    co_yield {.act = ExamAct::masks, .tensors = start_};
    for (ExamActions part = step_from_start(draw, losses, states); part.next();) co_yield part.action();
  }
  HostTensor both = HostTensor::zeros("timed/loss", {DType::f64, {draws, 2}});
  for (std::size_t draw = 0; draw < losses.size(); ++draw) {
    both.as<double>()[2 * draw] = timed_losses_[draw];
    both.as<double>()[2 * draw + 1] = losses[draw];
  }
  answers_.push_back(std::move(both));
  add_stacked("timed/drawn/", timed_states_);
  add_stacked("timed/taken/", states);
}

// The masks of a single op are read off its own results.
ExamActions ExamScript::op_as_timed() {
  co_yield {.act = ExamAct::set_state, .tensors = feeds_.state};
  for (ExamActions part = staged(0); part.next();) co_yield part.action();
  for (std::int64_t draw = 0; draw < 2; ++draw) {
    co_yield {.act = ExamAct::draw, .slot = slot_of(0), .step = feeds_.step_count(feeds_.steps()) + 1 + draw};
    drawn_.push_back(std::move(given_));
    if (draw > 0) continue;
    co_yield {.act = ExamAct::results};
    timed_states_.push_back(named_results());
  }
}

ExamActions ExamScript::op_with_masks() {
  add_stacked("draws/", drawn_);
  start_ = filled(drawn_[0]);
  co_yield {.act = ExamAct::masks, .tensors = start_};
  for (ExamActions part = staged(0); part.next();) co_yield part.action();
  for (ExamActions part = computed(slot_of(0), 1); part.next();) co_yield part.action();
  add_stacked("timed/drawn/", timed_states_);
  add_stacked("timed/taken/", {computed_});
}

// ---- names

// "first/" and the name of a tensor of the state: what kind of tensor it is, too.
std::string ExamScript::under(const std::string& run, const std::string& state) const {
  const char* kind = std::ranges::find(subject_.parameters, state) != subject_.parameters.end() ? "parameter/"
                     : std::ranges::find(subject_.running, state) != subject_.running.end()     ? "running/"
                                                                                                : "moment/";
  return run + kind + state;
}

// The results of a step that were given; those of a single op are "result/..." or "gradient/...".
Tensors ExamScript::named_results() {
  Tensors results = std::move(given_);
  for (HostTensor& tensor : results)
    if (is_op() && !tensor.name.starts_with("gradient/")) tensor.name = "result/" + tensor.name;
  return results;
}

Tensors ExamScript::handed_state() {
  Tensors chosen;
  for (const HostTensor& tensor : given_) chosen.push_back(handed(tensor));
  return chosen;
}

void ExamScript::add(const std::string& prefix, Tensors tensors) {
  for (HostTensor& tensor : tensors) tensor.name = prefix + tensor.name;
  std::ranges::move(tensors, std::back_inserter(answers_));
}

void ExamScript::add_stacked(const std::string& prefix, const std::vector<Tensors>& all) {
  Tensors stacked;
  for (const Tensors& tensors : all)
    for (const HostTensor& tensor : tensors) stack(stacked, tensor, static_cast<std::int64_t>(all.size()));
  add(prefix, std::move(stacked));
}

void ExamScript::add_number(std::string name, double value) {
  answers_.push_back(HostTensor::zeros(std::move(name), {DType::f64, {}}));
  answers_.back().as<double>()[0] = value;
}

double ExamScript::given_loss() const {
  if (given_.size() != 1 || given_[0].type.elements() != 1) throw CellError("[exam] the worker gave no loss");
  return to_doubles(given_[0])[0];
}

}  // namespace assay
