#include "harness/conductor/check/self_judge.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <span>

#include <fmt/format.h>

#include "harness/conductor/check/expected_tensors.hpp"
#include "harness/conductor/check/tolerance.hpp"
#include "harness/core/numerics.hpp"
#include "harness/graph/op.hpp"

namespace assay {
namespace {

constexpr double max_deviations = 6;    // exceeded by one correct draw in 5e8
constexpr double coarseness = 0x1p-14;  // of a generator's rate
// Two runs that move a tensor at random are apart by more than either moves.
constexpr double share_of_noise = 3;
// Two runs that began a rounding apart, or that round differently, may end farther apart than two others did.
constexpr double spread_factor = 6;

constexpr std::uint8_t unknown =
    255;  // in a mask: the input was 0, so its output cannot show whether it was kept

// How many of some elements are as they should be with this probability.
struct Share {
  double expected;
  double count = 0, of = 0;

  void add(bool found) {
    count += found ? 1 : 0;
    ++of;
  }
  void add_alike(std::uint8_t a, std::uint8_t b) {
    if (a != unknown && b != unknown) add((a != 0) == (b != 0));
  }
};

// Pairs of elements in one dimension of a mask: neighbours, or those that are half of the dimension apart. Each element is
// in one pair at most.
void add_pairs(std::vector<Share>& shares, std::span<const std::uint8_t> mask, std::size_t extent,
               std::size_t stride, double alike) {
  const std::size_t half = extent / 2;
  Share neighbours{alike}, halves{alike};
  for (std::size_t i = 0; i < mask.size(); ++i) {
    const std::size_t at = i / stride % extent;
    if (at % 2 == 0 && at + 1 < extent) neighbours.add_alike(mask[i], mask[i + stride]);
    if (at < half) halves.add_alike(mask[i], mask[i + half * stride]);
  }
  shares.push_back(neighbours);
  if (half > 1) shares.push_back(halves);
}

// Each pair of the equal parts of a mask that ranks have drawn.
void add_pairs_of_ranks(std::vector<Share>& shares, std::span<const std::uint8_t> mask, std::size_t ranks,
                        double alike) {
  const std::size_t part = mask.size() / ranks;
  for (std::size_t a = 0; a < ranks; ++a)
    for (std::size_t b = a + 1; b < ranks; ++b) {
      shares.push_back({alike});
      for (std::size_t i = 0; i < part; ++i) shares.back().add_alike(mask[a * part + i], mask[b * part + i]);
    }
}

// `draws`: (2, ...).
TensorVerdict judge_mask(const std::string& name, const HostTensor& draws, double rate, std::size_t ranks) {
  const std::span<const std::uint8_t> both = draws.as<std::uint8_t>();
  const auto first = both.first(both.size() / 2), second = both.last(both.size() / 2);
  const double kept = 1 - rate, alike = kept * kept + rate * rate;
  std::vector<Share> shares;
  for (const auto& draw : {first, second}) {
    shares.push_back({kept});
    for (const std::uint8_t element : draw)
      if (element != unknown) shares.back().add(element != 0);
    if (shares.back().of == 0) return beyond_all_measure(name);
  }
  shares.push_back({alike});
  for (std::size_t i = 0; i < first.size(); ++i) shares.back().add_alike(first[i], second[i]);
  std::size_t stride = first.size();
  for (const std::int64_t extent : std::span(draws.type.shape).subspan(1)) {
    stride /= static_cast<std::size_t>(extent);
    add_pairs(shares, first, static_cast<std::size_t>(extent), stride, alike);
  }
  add_pairs_of_ranks(shares, first, ranks, alike);
  TensorVerdict verdict{name, 0, 0, 0, 0, 0};
  for (const Share& share : shares) {
    if (share.of == 0) continue;
    const double error = std::abs(share.count / share.of - share.expected);
    const double bound =
        max_deviations * std::sqrt(share.expected * (1 - share.expected) / share.of) + coarseness;
    if (error / bound < verdict.ratio) continue;
    verdict = {name, error, bound, error, bound, std::min(beyond_measure, error / bound)};
  }
  return verdict;
}

}  // namespace

std::vector<TensorVerdict> judge_draws(const TensorFile& worker, const Program& program, Task task,
                                       std::size_t ranks) {
  std::vector<TensorVerdict> verdicts;
  if (task != Task::train && !program.is_op()) return verdicts;
  const Graph& graph = program.graph(task);
  for (const Node& node : graph.nodes()) {
    for (const ValueId id : node.inputs) {
      if (id == none || graph.value(id).role != Role::mask) continue;
      const std::string name = "draws/" + graph.value(id).name;
      const TensorType& mask = graph.value(id).type;
      Shape two = mask.shape;
      two.insert(two.begin(), 2);
      verdicts.push_back(worker.refusal(name, {DType::u8, two}).empty()
                             ? judge_mask(name, *worker.find(name), node.attributes.number("rate"), ranks)
                             : beyond_all_measure(name));
    }
  }
  return verdicts;
}

namespace {

// What two runs may be apart in a tensor, as a share of the change by the steps, and whether only rounding moves it.
struct Drift {
  double share;
  bool noise;
  bool none = false;  // they must have the same bits
};

constexpr const char* near_runs[] = {"near_1", "near_2"};

// A tensor of the state as the worker handed it over after each run.
class ContinuedTensor {
 public:
  ContinuedTensor(const TensorFile& worker, const StateTensor& tensor,
                  const std::optional<ExamExcerpt>& excerpt)
      : worker_(worker), name_(tensor.name), type_{DType::f32, tensor.shape} {
    if (excerpt) type_.shape = {excerpt->count(type_.elements())};
  }

  TensorVerdict judged(const Drift& drift, double roundoff) const {
    const auto start = after("start"), unwaited = after("unwaited"), waited = after("waited");
    if (!start || !unwaited || !waited) return beyond_all_measure("continuation/" + name_);
    double largest = 0, spread = 0;
    for (std::size_t i = 0; i < waited->size(); ++i)
      largest = std::max(largest, std::abs((*unwaited)[i] - (*waited)[i]));
    for (const char* run : near_runs) {
      if (worker_.find(of(run)) == nullptr) continue;  // the two runs were equal
      const auto near = after(run);
      if (!near) return beyond_all_measure("continuation/" + name_);
      spread = std::max(spread, l2_distance(*near, *waited));
    }
    const double distance = l2_distance(*unwaited, *waited), moved = l2_distance(*waited, *start);
    // Where a gradient is more than rounding, no order of its sums undoes all that the steps changed.
    const double from_spread = drift.noise ? spread_factor * spread : std::min(spread_factor * spread, moved);
    const double allowed =
        drift.none ? 0 : drift.share * moved + from_spread + 8 * roundoff * l2_norm(*waited);
    return {"continuation/" + name_, largest, allowed, distance, allowed, ratio_of(distance, allowed)};
  }

 private:
  std::string of(const char* run) const { return fmt::format("continuation/{}/{}", run, name_); }
  std::optional<std::vector<double>> after(const char* run) const {
    if (!worker_.refusal(of(run), type_).empty()) return std::nullopt;
    return worker_.required(of(run));
  }

  const TensorFile& worker_;
  std::string name_;
  TensorType type_;
};

}  // namespace

std::vector<TensorVerdict> judge_continuation(const TensorFile& worker, const Program& program,
                                              const Precision& precision, const std::set<std::string>& noisy,
                                              bool deterministic, const std::optional<ExamExcerpt>& excerpt) {
  const Drift usual{is_narrow(precision) ? 0.1 : 1e-2, false, deterministic},
      noise{share_of_noise, true, deterministic};
  std::vector<TensorVerdict> verdicts;
  for (const StateTensor& tensor : state_tensors(program))
    verdicts.push_back(
        ContinuedTensor(worker, tensor, excerpt)
            .judged(noisy.contains(tensor.parameter) ? noise : usual, unit_roundoff(precision.master)));
  return verdicts;
}

namespace {

// A tensor of the state after the first step of the continuation, as the worker handed it over.
class NextTensor {
 public:
  NextTensor(const TensorFile& worker, const StateTensor& tensor, const SteppedState& next, double share,
             const std::optional<ExamExcerpt>& excerpt)
      : name_(tensor.name), excerpt_(excerpt), share_(share) {
    const std::string answer = "continuation/start/" + name_;
    const TensorType whole{DType::f32, tensor.shape};
    const TensorType handed{DType::f32, excerpt ? Shape{excerpt->count(whole.elements())} : tensor.shape};
    if (!worker.refusal(answer, handed).empty() || !next.after.refusal(name_, whole).empty()) return;
    change_ = change(next.before.required(name_, excerpt), worker.required(answer));
    const std::vector<double> after = next.after.required(name_, excerpt_);
    first_ = change(next.before.required(name_, excerpt_), after);
    nearest_ = against(first_, after);
    if (const double moved = l2_norm(first_); moved > 0) apart_ = nearest_.l2_error / moved;
    if (is_within()) first_.clear();
  }

  const TensorVerdict& nearest() const { return nearest_; }
  bool is_within() const { return nearest_.ratio <= 1; }
  void look_at(const SteppedState& nudged) {
    if (change_.empty()) return;
    const std::vector<double> after = nudged.after.required(name_, excerpt_);
    const std::vector<double> other = change(nudged.before.required(name_, excerpt_), after);
    spread_ = std::max(spread_, l2_distance(first_, other));
    TensorVerdict found = against(other, after);
    if (found.ratio < nearest_.ratio) nearest_ = std::move(found);
  }
  // The distance from the other backend's step as a share of what that moved.
  double apart() const { return apart_; }
  // Allows more where the nudged steps were away from the one that is not.
  void allow_spread() {
    constexpr double max_share = 0.75, decided_by_rounding = 0.5;
    if (is_within() || change_.empty() || !std::isfinite(spread_)) return;
    const double moved = l2_norm(first_);
    double allowed = 4 * spread_;
    if (spread_ <= decided_by_rounding * moved) allowed = std::min(allowed, max_share * moved);
    TensorVerdict found = verdict(first_, allowed);
    if (found.ratio < nearest_.ratio) nearest_ = std::move(found);
  }

 private:
  static std::vector<double> change(const std::vector<double>& before, std::vector<double> after) {
    for (std::size_t i = 0; i < after.size(); ++i) after[i] -= before[i];
    return after;
  }
  TensorVerdict against(const std::vector<double>& other_change, const std::vector<double>& after) const {
    return verdict(other_change,
                   share_ * l2_norm(other_change) + 8 * unit_roundoff(DType::f32) * l2_norm(after));
  }
  TensorVerdict verdict(const std::vector<double>& other_change, double allowed) const {
    double largest = 0;
    for (std::size_t i = 0; i < change_.size(); ++i)
      largest = std::max(largest, std::abs(change_[i] - other_change[i]));
    const double distance = l2_distance(change_, other_change);
    return {"continuation/step/" + name_, largest, allowed, distance, allowed, ratio_of(distance, allowed)};
  }

  std::string name_;
  std::optional<ExamExcerpt> excerpt_;
  double share_;
  std::vector<double> change_;  // empty: the worker's tensor is beyond measure
  std::vector<double> first_;   // of the other backend; empty if the worker's is near enough
  double spread_ = 0;           // the farthest of nudged steps from that
  double apart_ = 0;
  TensorVerdict nearest_ = beyond_all_measure("continuation/step/" + name_);
};

}  // namespace

std::vector<TensorVerdict> judge_next_state(const TensorFile& worker, const Program& program,
                                            const Precision& precision, const std::set<std::string>& noisy,
                                            const SteppedState& next,
                                            const std::optional<ExamExcerpt>& excerpt,
                                            const NudgedStep& nudged) {
  constexpr double max_share = 0.6, max_mean_apart = 0.5;
  if (!(next.loss > 0)) return {};
  const double share = is_narrow(precision) ? 0.3 + 4 * unit_roundoff(DType::bf16) / next.loss
                                            : 0.2 + 64 * unit_roundoff(DType::f32) / next.loss;
  if (!(share <= max_share)) return {};
  std::vector<NextTensor> tensors;
  for (const StateTensor& tensor : state_tensors(program))
    if (!noisy.contains(tensor.parameter))  // each backend has roundings of its own
      tensors.emplace_back(worker, tensor, next, share, excerpt);
  for (int number = 1; nudged && number <= max_nudged_replays; ++number) {
    if (std::ranges::all_of(tensors, &NextTensor::is_within)) break;
    const std::optional<SteppedState> other = nudged(number);
    if (!other) break;
    for (NextTensor& tensor : tensors)
      if (!tensor.is_within()) tensor.look_at(*other);
  }
  double apart = 0;
  for (const NextTensor& tensor : tensors) apart += tensor.apart();
  if (precision.storage != precision.master && apart <= max_mean_apart * static_cast<double>(tensors.size()))
    for (NextTensor& tensor : tensors) tensor.allow_spread();
  std::vector<TensorVerdict> verdicts;
  for (const NextTensor& tensor : tensors) verdicts.push_back(tensor.nearest());
  return verdicts;
}

std::uint64_t max_continuation_bytes(const Program& program) {
  return static_cast<std::uint64_t>(state_bytes(program)) * (3 + std::size(near_runs));
}

std::string first_not_finite(const TensorFile& worker, const Program& program) {
  for (const StateTensor& tensor : state_tensors(program)) {
    const HostTensor* found = worker.find("continuation/waited/" + tensor.name);
    if (found == nullptr || found->type.dtype != DType::f32) continue;
    if (!std::ranges::all_of(found->as<float>(), [](float value) { return std::isfinite(value); }))
      return tensor.name;
  }
  return {};
}

bool differs_only_after_run(const Equivalence& verified) {
  return std::ranges::none_of(verified.tensors, [](const TensorVerdict& tensor) {
    const bool after_run = tensor.name.starts_with("continuation/") || tensor.name.starts_with("replay/") ||
                           tensor.name.starts_with("loader/") || tensor.name == "state" ||
                           (tensor.name.starts_with("evaluation/") && tensor.name != "evaluation/logits");
    return tensor.ratio > 1 && !after_run;
  });
}

}  // namespace assay
