#include "harness/batch/supply.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <stdexcept>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/core/error.hpp"
#include "harness/core/json/strict_json.hpp"
#include "harness/core/process_tree.hpp"
#include "harness/core/text.hpp"
#include "harness/protocol/disturbance.hpp"

namespace assay {
namespace {

constexpr std::size_t max_latencies = 65'536;
constexpr std::int64_t min_rows = 131'072;               // schedule rows of a fork that counts steps: 2 MiB
constexpr std::int64_t endless = std::int64_t{1} << 50;  // number of steps of a single op
constexpr std::size_t max_plans = 64;                    // plans that a fork that counts steps reads
constexpr std::int64_t save_every_ns = 1'000'000'000;
// Readings of results: how many are kept, how many come first in any case, one in how many steps is drawn, and what share
// of the time they may take, in the timed blocks and in the warm-up. Those of a single op are between its blocks.
constexpr std::size_t max_readings = 64, first_readings = 3;
constexpr std::uint64_t steps_per_reading = 8;
constexpr double timed_share = 0.0025, warm_up_share = 0.1, between_share = 0.02;

[[noreturn]] void out_of_turn(std::string_view call, std::string_view what) {
  throw CallError(fmt::format("[{}] {}", call, what));
}

// A label beyond the network's logits would be read from other memory.
void reject_other_classes(const std::filesystem::path& cell_folder, const Manifest& manifest) {
  const std::filesystem::path path = cell_folder / "graph.json";
  if (!std::filesystem::exists(path)) return;
  const nlohmann::json program = read_strict_json(path);
  if (!program.is_object()) return;
  const nlohmann::json graph = program.value("inference", nlohmann::json::object());
  const auto outputs = graph.find("outputs"), values = graph.find("values");
  if (outputs == graph.end() || !outputs->is_object() || !outputs->contains("logits") ||
      values == graph.end())
    return;
  for (const nlohmann::json& value : *values) {
    if (!value.is_object() || !value.contains("name") || value["name"] != (*outputs)["logits"]) continue;
    const nlohmann::json shape = value.value("shape", nlohmann::json::array());
    if (shape.empty() || !shape.back().is_number_integer() || shape.back() == manifest.classes) return;
    throw IoError(
        "manifest", cell_folder / "data" / "manifest.json",
        fmt::format("has {} classes, but the logits of graph.json have {}; the data set and the network must "
                    "agree",
                    manifest.classes, shape.back().get<std::int64_t>()));
  }
}

BlockKind recorded(PlannedBlock::Kind kind) {
  return kind == PlannedBlock::Kind::warm_up ? BlockKind::warm_up : BlockKind::timed;
}

}  // namespace

BatchSupply::BatchSupply(const std::filesystem::path& cell_folder, Now now)
    : cell_folder_(std::filesystem::absolute(cell_folder)),
      now_(now),
      request_(read_request(cell_folder_ / "request.json")),
      clock_(request_.clock.value_or(ClockRequest{})),
      opener_(std::make_unique<SourceOpener>(read_manifest(cell_folder_))),
      train_(opener_->open("train")),
      evaluator_(opener_->manifest().classes),
      latencies_(training() || request_.op ? 0 : max_latencies),
      prefills_(request_.task == Task::decode ? max_latencies : 0),
      random_(std::random_device()(), "readings") {
  const Manifest& manifest = opener_->manifest();
  reject_other_classes(cell_folder_, manifest);
  const bool epochs = clock_.kind == ClockKind::epochs;
  // An epoch reads every sample once: rotating batches are impossible.
  if (epochs && request_.loader.kind == LoaderKind::resident) request_.loader.kind = LoaderKind::harness;
  const bool resident = request_.loader.kind == LoaderKind::resident;
  if (!resident) request_.loader.resident_batches = 0;

  layout_.batch = request_.batch;
  layout_.rank = static_cast<std::int64_t>(manifest.sample_shape.size());
  std::copy(manifest.sample_shape.begin(), manifest.sample_shape.end(), layout_.sample_shape);
  layout_.sample_elements = element_count(manifest.sample_shape);
  layout_.classes = manifest.classes;
  layout_.positions = manifest.positions;
  labels_of_sample_ = manifest.labels_of_sample();
  layout_.input_type = manifest.tokens() ? ASSAY_I32 : ASSAY_F32;
  layout_.resident_batches = request_.loader.resident_batches;

  const std::size_t wanted = epochs ? static_cast<std::size_t>(clock_.epochs) : max_plans;
  std::vector<std::int64_t> epoch_steps;
  for (std::size_t i = 0; i < wanted; ++i) {
    const std::filesystem::path path = plan_path(cell_folder_, static_cast<int>(i) + 1);
    if (!epochs && i > 0 && !std::filesystem::exists(path)) break;
    plans_.emplace_back(path);
    const std::int64_t rows = static_cast<std::int64_t>(plans_.back().rows().size());
    if (rows == 0 || (!resident && rows < request_.batch))
      throw IoError("plan", path,
                    fmt::format("has {}, fewer than a batch of {}; choose a smaller batch",
                                plural(rows, "sample"), request_.batch));
    if (!epochs && rows != static_cast<std::int64_t>(plans_.front().rows().size()))
      throw IoError("plan", path, "differs in length from the plan of the first epoch");
    if (!epochs) plans_.back().require_valid(train_->samples(), opener_->manifest().sample_shape);
    epoch_steps.push_back(rows / request_.batch);
  }
  std::vector<std::int64_t> evaluation_steps;
  for (const std::string& split : clock_.evaluate) {
    evaluated_.push_back(opener_->open(split));
    if (!from_word<DataSplit>(split))
      throw IoError(
          "request", cell_folder_ / "request.json",
          fmt::format("evaluates the split '{}', which is not one of {}", split, list_of_words<DataSplit>()));
    evaluation_steps.push_back((evaluated_.back()->samples() + request_.batch - 1) / request_.batch);
  }
  open_schedule(BlockPlan::rows_needed(clock_, epoch_steps));
  const std::size_t blocks = epochs ? epoch_steps.size() * (1 + evaluation_steps.size()) : 0;
  plan_.emplace(clock_, request_.op ? endless : layout_.schedule_rows, std::move(epoch_steps),
                std::move(evaluation_steps));

  if (epochs) step_counter_.emplace(cell_folder_ / step_counter_file, plan_->planned());
  results_.clock = measure_clock();
  const LoaderRequest& loader = request_.loader;
  results_.loader = {.kind = loader.kind,
                     .workers = loader.workers,
                     .prefetch = loader.prefetch,
                     .resident_batches = loader.resident_batches};
  if (resident) results_.loader.workers = results_.loader.prefetch = 0;
  results_.blocks.reserve(std::max<std::size_t>(blocks, 1024));
  results_.readings.reserve(max_readings + 1);
  const bool no_loader = resident && evaluated_.empty();
  loader_ = std::make_unique<Loader>(no_loader ? 0 : request_.loader.workers, request_.loader.prefetch,
                                     request_.batch, layout_.sample_elements, labels_of_sample_);
}

BatchSupply::~BatchSupply() = default;

void BatchSupply::open_schedule(std::int64_t needed) {
  if (request_.op) return;
  const std::filesystem::path path = cell_folder_ / "schedule.npy";
  const bool epochs = clock_.kind == ClockKind::epochs;
  std::int64_t rows = 0;
  if (training() || std::filesystem::exists(path)) {
    const MappedNpy array(path);
    if (array.type().dtype != DType::f64 || array.type().shape.size() != 2 || array.type().shape[1] != 2)
      throw IoError("schedule", path, fmt::format("is {}, wanted f64 (steps, 2)", to_string(array.type())));
    rows = array.type().shape[0];
    schedule_.assign(array.as<double>().begin(), array.as<double>().end());
    if (training() && (rows == 0 || (epochs && rows < needed)))
      throw IoError(
          "schedule", path,
          fmt::format("has {}, but the request needs {}", plural(rows, "row"), plural(needed, "step")));
  }
  // The number of steps that fit into a time is unknown beforehand, and the course of the learning rate does
  // not matter then.
  const std::int64_t wanted = epochs ? std::max(rows, needed) : std::max({rows, needed, min_rows});
  schedule_.reserve(static_cast<std::size_t>(wanted) * 2);
  for (; rows < wanted; ++rows) {
    const bool first = schedule_.empty();
    const double rate = first ? 0 : schedule_[schedule_.size() - 2];
    const double count = first ? 1 : schedule_.back() + 1;
    schedule_.push_back(rate);
    schedule_.push_back(count);
  }
  layout_.schedule_rows = rows;
}

BatchList BatchSupply::batches_of_plans(std::vector<std::span<const PlanRow>> plans,
                                        std::int64_t batches) const {
  return {train_.get(), request_.batch,   layout_.sample_elements,
          batches,      std::move(plans), labels_of_sample_};
}

void BatchSupply::read_resident(std::int64_t slot, void* inputs, std::int32_t* labels) const {
  const std::int64_t slots = std::max<std::int64_t>(layout_.resident_batches, 1);
  if (slot < 0 || slot >= slots)
    out_of_turn("assay_read_resident", fmt::format("got slot {}, but there are {} slots", slot, slots));
  const std::span<const PlanRow> rows = plans_.front().rows();
  for (std::int64_t i = 0; i < request_.batch; ++i) {
    // If the set has fewer samples than the resident batches, start again from its first sample.
    const PlanRow& row = rows[static_cast<std::size_t>(slot * request_.batch + i) % rows.size()];
    if (row.sample < 0 || row.sample >= train_->samples())
      out_of_turn("assay_read_resident", fmt::format("the plan names sample {}, but the split has {}",
                                                     row.sample, train_->samples()));
    train_->read(row, static_cast<std::uint32_t*>(inputs) + i * layout_.sample_elements);
    train_->labels(row.sample, labels + i * labels_of_sample_);
  }
}

assay_block BatchSupply::next_block() {
  if (open_) out_of_turn("assay_next_block", "the current block has not ended: call assay_end_block first");
  const std::int64_t now = now_();
  if (unsaved_ && now - saved_ns_ >= save_every_ns) save();
  block_ = plan_->next();
  if (block_.kind == PlannedBlock::Kind::done) {
    results_.complete = true;
    unsaved_ = true;
    save();
    return {ASSAY_DONE, 0, 0, block_.first_step};
  }
  start_block(block_);
  agreed("assay_next_block", 0);  // ranks begin a block together
  const std::int32_t kind = block_.kind == PlannedBlock::Kind::warm_up ? ASSAY_WARM_UP
                            : block_.kind == PlannedBlock::Kind::timed ? ASSAY_TIMED
                                                                       : ASSAY_EVALUATE;
  const assay_block result = {kind, block_.epoch, block_.steps, block_.first_step};
  wait_ns_ = enqueue_ns_ = batches_read_ = steps_begun_ = token_ = 0;
  labels_.clear();
  open_ = true;
  const bool first = block_.kind == PlannedBlock::Kind::timed && !timing_;
  if (first) {
    first_children_ns_ = children_cpu_ns();
    first_waited_ns_ = process_waited_ns("self");
  }
  before_ = counter_reader_.read();
  begin_ns_ = last_lap_ns_ = now_();
  if (first || phase_begin_ns_ == 0) {
    phase_begin_ns_ = begin_ns_;
    reading_ns_ = 0;
  }
  if (first) {
    timing_ = true;
    first_ = before_;
    first_begin_ns_ = begin_ns_;
  }
  return result;
}

void BatchSupply::start_block(const PlannedBlock& block) {
  if (block.kind == PlannedBlock::Kind::evaluate) {
    const auto& splits = clock_.evaluate;
    const auto index =
        static_cast<std::size_t>(std::find(splits.begin(), splits.end(), block.split) - splits.begin());
    evaluator_.reset();
    labels_.reserve(static_cast<std::size_t>(request_.batch * labels_of_sample_));
    loader_->start({evaluated_[index].get(),
                    request_.batch,
                    layout_.sample_elements,
                    block.steps,
                    {},
                    labels_of_sample_});
  } else if (request_.loader.kind == LoaderKind::harness && block.epoch > 0) {
    const MappedPlan& plan = plans_[static_cast<std::size_t>(block.epoch - 1)];
    plan.require_valid(train_->samples(), opener_->manifest().sample_shape);
    loader_->start(batches_of_plans({plan.rows()}, block.steps));
  } else if (request_.loader.kind == LoaderKind::harness && !streaming_) {
    streaming_ = true;
    std::vector<std::span<const PlanRow>> all;
    for (const MappedPlan& plan : plans_) all.push_back(plan.rows());
    loader_->start(batches_of_plans(std::move(all), std::numeric_limits<std::int64_t>::max()));
  }
}

std::int64_t BatchSupply::next_batch(void* inputs, std::int32_t* labels) {
  const std::int64_t begin = now_();
  if (!open_) out_of_turn("assay_next_batch", "no block is open: call assay_next_block first");
  const bool evaluating = block_.kind == PlannedBlock::Kind::evaluate;
  if (!evaluating && request_.loader.kind != LoaderKind::harness)
    out_of_turn("assay_next_batch",
                fmt::format("the loader of this cell is '{}'", to_string(request_.loader.kind)));
  if (batches_read_ == block_.steps)
    out_of_turn("assay_next_batch", fmt::format("all {} batches of the block were read", block_.steps));
  if (evaluating && !labels_.empty())
    out_of_turn("assay_next_batch",
                "the logits of the previous batch were not added: call assay_add_logits first");
  const bool ahead = loader_->wait();
  const std::int64_t there = now_();
  const std::int64_t samples = loader_->next(inputs, labels);
  // Copying a filled batch is part of a step, for every backend.
  wait_ns_ += (ahead ? there : now_()) - begin;
  ++batches_read_;
  if (step_counter_ && !evaluating) step_counter_->set(plan_->done() + batches_read_ - 1);
  if (evaluating) labels_.assign(labels, labels + request_.batch * labels_of_sample_);
  return samples;
}

void BatchSupply::add_logits(const float* logits) {
  if (!open_ || block_.kind != PlannedBlock::Kind::evaluate)
    out_of_turn("assay_add_logits", "the current block is not an evaluation");
  if (labels_.empty()) out_of_turn("assay_add_logits", "no batch was read: call assay_next_batch first");
  evaluator_.add(logits, labels_);
  labels_.clear();
}

void BatchSupply::enqueued() {
  const std::int64_t now = now_();
  if (!open_ || block_.kind == PlannedBlock::Kind::evaluate)
    out_of_turn("assay_enqueued", "no block of steps is open");
  enqueue_ns_ = now - begin_ns_;
}

void BatchSupply::lap(const char* call, Latencies& latencies) {
  const std::int64_t now = now_();
  if (!open_) out_of_turn(call, "no block is open");
  if (block_.kind == PlannedBlock::Kind::timed) latencies.add(now - last_lap_ns_);
  last_lap_ns_ = now;
}

bool BatchSupply::lap() {
  const std::int64_t begin = last_lap_ns_;
  lap("assay_lap", latencies_);
  if (request_.task == Task::decode)
    ++token_;
  else
    ++steps_begun_;
  lap_ns_ = last_lap_ns_ - begin;
  return wants_results({.interval_ns = lap_ns_,
                        .step = block_.first_step + std::max<std::int64_t>(0, steps_begun_ - 1),
                        .token = token_},
                       last_lap_ns_);
}

void BatchSupply::lap_prefill() {
  lap("assay_lap_prefill", prefills_);
  ++steps_begun_;
  token_ = 0;
}

bool BatchSupply::wants_results(const ResultReading& of, std::int64_t now, bool last) {
  const std::size_t count = results_.readings.size();
  const bool always = last || (count < first_readings && (request_.op || !timing_));
  if (!last && count >= max_readings) return false;
  if (!always && random_.below(steps_per_reading) != 0) return false;
  // The next pair takes as long as the last one did.
  const double share = request_.op ? between_share : timing_ ? timed_share : warm_up_share;
  const std::int64_t expected = reading_.first_ns + reading_.again_ns;
  if (!always &&
      static_cast<double>(reading_ns_ + expected) > share * static_cast<double>(now - phase_begin_ns_))
    return false;
  reading_ = of;
  readings_left_ = 2;
  read_from_ns_ = now_();
  return true;
}

void BatchSupply::results_read() {
  const std::int64_t now = now_();
  if (readings_left_ == 0) out_of_turn("assay_results_read", "no results were asked for");
  (readings_left_ == 2 ? reading_.first_ns : reading_.again_ns) = now - read_from_ns_;
  if (--readings_left_ == 0) {
    reading_ns_ += reading_.first_ns + reading_.again_ns;
    results_.readings.push_back(reading_);
    unsaved_ = true;
  }
  read_from_ns_ = last_lap_ns_ = now_();
}

bool BatchSupply::end_block(double loss) {
  const std::int64_t end = now_();
  if (!open_) out_of_turn("assay_end_block", "no block is open: call assay_next_block first");
  unsaved_ = true;
  if (block_.kind == PlannedBlock::Kind::evaluate) {
    end_evaluation(end);
    return false;
  }
  const Counters after = counter_reader_.read();
  if (block_.kind == PlannedBlock::Kind::timed) note_disturbance(after, end);
  if (request_.loader.kind == LoaderKind::harness && batches_read_ != block_.steps)
    out_of_turn("assay_end_block",
                fmt::format("{} of the {} batches of the block were read", batches_read_, block_.steps));
  open_ = false;
  results_.blocks.push_back(
      {recorded(block_.kind), block_.epoch, block_.steps, begin_ns_, end, wait_ns_,
       after.cpu_ns - before_.cpu_ns, after.involuntary_switches - before_.involuntary_switches,
       after.major_faults - before_.major_faults, after.processors.steal_ns - before_.processors.steal_ns,
       std::isfinite(loss) ? std::optional(loss) : std::nullopt, enqueue_ns_,
       after.minor_faults - before_.minor_faults});
  results_.loader.batches += batches_read_;
  results_.loader.wait_ns += wait_ns_;
  // The time of one rank decides the size of the next block for all of them.
  plan_->ended(agreed("assay_end_block", end - begin_ns_));
  const bool last = block_.kind == PlannedBlock::Kind::timed && plan_->done() == plan_->planned();
  if (!request_.op && (training() || !last)) return false;
  return wants_results({.interval_ns = request_.op ? end - begin_ns_ : lap_ns_,
                        .step = block_.first_step + block_.steps - 1,
                        .token = token_},
                       end, last);
}

void BatchSupply::running_accuracy(double accuracy) {
  if (open_ || results_.blocks.empty() || block_.kind == PlannedBlock::Kind::evaluate)
    out_of_turn("assay_running_accuracy", "no block of steps has just ended");
  if (!(accuracy >= 0 && accuracy <= 1))
    out_of_turn("assay_running_accuracy", fmt::format("got {}, which is not a share from 0 to 1", accuracy));
  results_.blocks.back().accuracy = accuracy;
  unsaved_ = true;
}

std::int64_t BatchSupply::agreed(const char* call, std::int64_t value) const {
  if (request_.world == 1) return value;
  if (!agree_) out_of_turn(call, "several ranks must agree on each block: call assay_set_agree first");
  const std::int64_t common = agree_(value);
  if (common < 0) out_of_turn(call, "the ranks did not agree: one of them has failed");
  return common;
}

void BatchSupply::note_disturbance(const Counters& after, std::int64_t end) {
  const std::int64_t own_ns = after.cpu_ns - first_.cpu_ns + children_cpu_ns() - first_children_ns_;
  results_.disturbance =
      disturbance_between(first_.processors, after.processors, end - first_begin_ns_, own_ns);
  if (!results_.disturbance || !first_waited_ns_) return;
  // The time of a thread that has ended is lost, so the sum may fall.
  if (const auto waited = process_waited_ns("self"))
    results_.disturbance->waited_ns = std::max<std::int64_t>(0, *waited - *first_waited_ns_);
}

void BatchSupply::end_evaluation(std::int64_t end) {
  if (batches_read_ != block_.steps || !labels_.empty())
    out_of_turn("assay_end_block",
                fmt::format("{} of the {} batches of the split '{}' were evaluated",
                            batches_read_ - (labels_.empty() ? 0 : 1), block_.steps, block_.split));
  open_ = false;
  results_.evaluations.push_back({block_.epoch, from_word<DataSplit>(block_.split).value(),
                                  evaluator_.samples(), evaluator_.loss(), evaluator_.accuracy(),
                                  static_cast<double>(end - begin_ns_) * 1e-9});
  plan_->ended(end - begin_ns_);
}

void BatchSupply::save() {
  if (!unsaved_) return;
  results_.warm_up = {plan_->warm_up_steps(), plan_->warm_up_seconds(), plan_->steady()};
  results_.latencies_ns = latencies_.kept();
  results_.latencies_seen = latencies_.seen();
  results_.prefills_ns = prefills_.kept();
  const std::filesystem::path folder = cell_folder_ / "results";
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw IoError("results", folder, "cannot be created", error.value());
  write_clock_file(folder / "clock.json", results_);
  unsaved_ = false;
  saved_ns_ = now_();
}

}  // namespace assay
