// One cell folder while a worker runs it: the functions of the C interface, in C++ and with exceptions.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/batch/block_plan.hpp"
#include "harness/batch/c_api.h"
#include "harness/batch/counters.hpp"
#include "harness/batch/evaluator.hpp"
#include "harness/batch/latencies.hpp"
#include "harness/batch/loader.hpp"
#include "harness/batch/plan_file.hpp"
#include "harness/batch/source.hpp"
#include "harness/core/error.hpp"
#include "harness/protocol/clock_file.hpp"
#include "harness/protocol/request.hpp"
#include "harness/protocol/step_counter.hpp"

namespace assay {

// The backend calls a function in the wrong order or with invalid arguments.
class CallError : public Error {
 public:
  using Error::Error;
};

// Belongs to one thread. The comments of c_api.h are the contract. Throws IoError for files, CallError for
// calls in the wrong order.
class BatchSupply {
 public:
  using Now = std::int64_t (*)();

  explicit BatchSupply(const std::filesystem::path& cell_folder, Now now = now_ns);
  // Stops the loader; does not write anything.
  ~BatchSupply();

  const assay_layout& layout() const { return layout_; }
  // A fork that counts steps gets additional rows after those of schedule.npy: they repeat the last learning
  // rate and continue the step count.
  const double* schedule() const { return schedule_.data(); }

  void read_resident(std::int64_t slot, void* inputs, std::int32_t* labels) const;
  std::int64_t next_batch(void* inputs, std::int32_t* labels);
  using Agree = std::function<std::int64_t(std::int64_t)>;
  void set_agree(Agree agree) { agree_ = std::move(agree); }
  assay_block next_block();
  bool end_block(double loss);
  void running_accuracy(double accuracy);
  void enqueued();
  bool lap();
  void lap_prefill();
  void results_read();
  void add_logits(const float* logits);
  std::int64_t done() const { return plan_->done(); }
  std::int64_t planned() const { return plan_->planned(); }
  // Writes results/clock.json if something was measured since the last save.
  void save();

 private:
  bool training() const { return request_.task == Task::train; }
  // Adds the time since the last lap, or since the begin of the block.
  void lap(const char* call, Latencies& latencies);
  // Whether the results of a step, which took or whose block took `interval_ns`, are asked for now. last: of the run.
  bool wants_results(const ResultReading& of, std::int64_t now, bool last = false);
  // The value of rank 0, once all ranks have called it.
  std::int64_t agreed(const char* call, std::int64_t value) const;
  void open_schedule(std::int64_t needed);
  void start_block(const PlannedBlock& block);
  void note_disturbance(const Counters& after, std::int64_t end);
  void end_evaluation(std::int64_t end);
  BatchList batches_of_plans(std::vector<std::span<const PlanRow>> plans, std::int64_t batches) const;

  std::filesystem::path cell_folder_;
  Now now_;
  CellRequest request_;
  ClockRequest clock_;
  std::unique_ptr<SourceOpener> opener_;
  std::unique_ptr<Source> train_;
  std::vector<std::unique_ptr<Source>> evaluated_;  // in the order of clock_.evaluate
  std::vector<MappedPlan> plans_;                   // by epoch, from 1
  std::vector<double> schedule_;
  assay_layout layout_ = {};
  std::int64_t labels_of_sample_ = 1;
  std::optional<BlockPlan> plan_;
  std::optional<StepCounter> step_counter_;  // of an epoch, whose block may take minutes
  Agree agree_;
  CounterReader counter_reader_;
  Evaluator evaluator_;
  Latencies latencies_;
  Latencies prefills_;  // of task decode

  // The current block.
  bool open_ = false;
  PlannedBlock block_;
  std::int64_t begin_ns_ = 0;
  std::int64_t last_lap_ns_ = 0;
  std::int64_t wait_ns_ = 0;
  std::int64_t enqueue_ns_ = 0;
  std::int64_t batches_read_ = 0;
  std::int64_t steps_begun_ = 0;  // of an inference or generation, by its laps
  std::int64_t token_ = 0;        // of the current generation
  std::int64_t lap_ns_ = 0;       // the last one
  Counters before_;
  // Read at the begin of the first timed block.
  Counters first_;
  std::int64_t first_begin_ns_ = 0, first_children_ns_ = 0;
  std::optional<std::int64_t> first_waited_ns_{};
  bool timing_ = false;
  std::vector<std::int32_t> labels_;  // of the current evaluation batch; empty after its logits were added

  // Which results are asked for, and what reading them takes.
  Philox random_;
  ResultReading reading_{};
  int readings_left_ = 0;          // of the current pair
  std::int64_t read_from_ns_ = 0;  // of the reading that is under way
  std::int64_t reading_ns_ = 0;    // of all pairs of the phase: warm-up or timed
  std::int64_t phase_begin_ns_ = 0;

  bool streaming_ = false;  // the loader reads the plans of a fork that counts steps
  ClockFile results_;
  bool unsaved_ = false;
  std::int64_t saved_ns_ = 0;
  std::unique_ptr<Loader>
      loader_;  // the last member: it reads the sources and plans above until it is destroyed
};

}  // namespace assay
