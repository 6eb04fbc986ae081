// Samples of a worker while it lives, and its threads during the command `run`.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "harness/conductor/process/conversation.hpp"
#include "harness/conductor/process/thread_watch.hpp"
#include "harness/conductor/process/worker_process.hpp"
#include "harness/conductor/process/worker_sampler.hpp"
#include "harness/machine/gpu_sampler.hpp"

namespace assay {

class WorkerWatch {
 public:
  using Clock = std::chrono::steady_clock;

  // `worker`: started by this plan. `result`: of the conversation; gets the samples of `run`, and the times in
  // which the worker was stopped. All must outlive this.
  WorkerWatch(const ConversationPlan& plan, const WorkerProcess& worker, ConversationResult& result);

  // Around the command `run`. Samples of a GPU are taken at both ends, so that its counters cover all steps.
  void begin_steps();
  void has_begun(Clock::time_point begin) { run_begin_ = begin; }
  void end_steps();

  // Does nothing if the plan wants no samples.
  void sample();
  // When the next one is due; nothing if the plan wants none.
  std::optional<Clock::time_point> next_sample() const;
  // A short run may have no sample, and the kernel's peak is that of the worker's own process.
  void sample_peak() { sampler_.sample(worker_.pid()); }

  const WorkerSampler& sampler() const { return sampler_; }
  void forget_peak() { sampler_.forget_peak(); }
  // Absent if the plan names no GPU.
  std::optional<GpuUse> gpu_use() const;
  // See GpuSampler::memory_text(), after another sample. Empty without a GPU.
  std::string gpu_memory();

 private:
  void note_stopped_worker();

  const ConversationPlan& plan_;
  const WorkerProcess& worker_;
  ConversationResult& result_;
  WorkerSampler sampler_;
  ThreadWatch threads_;
  std::optional<GpuSampler> gpu_;
  GpuPhase gpu_phase_ = GpuPhase::preparation;
  bool keep_samples_ = false;
  std::optional<Clock::time_point> run_begin_;  // of the command `run` while it runs
  Clock::time_point sampled_{};                 // when the last sample was taken
  double sample_seconds_;
  Clock::time_point next_sample_{};
};

}  // namespace assay
