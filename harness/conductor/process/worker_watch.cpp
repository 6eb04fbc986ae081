#include "harness/conductor/process/worker_watch.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "harness/conductor/process/steady_time.hpp"
#include "harness/core/text.hpp"
#include "harness/machine/nvml.hpp"

namespace assay {
namespace {

// Merges two neighbors: counters and clocks of the second, mean of shares, maximum of sizes.
GpuReading merged(const GpuReading& first, const GpuReading& second) {
  GpuReading both = second;
  if (first.utilisation && second.utilisation)
    both.utilisation = (*first.utilisation + *second.utilisation) / 2;
  else
    both.utilisation.reset();
  both.worker_memory = std::max(first.worker_memory, second.worker_memory);
  both.device_memory = std::max(first.device_memory, second.device_memory);
  if (first.throttle && second.throttle) {
    for (const std::string& reason : *first.throttle)
      if (!contains(*both.throttle, reason)) both.throttle->push_back(reason);
  }
  return both;
}

// A long run loses resolution: two neighbors become one.
constexpr std::size_t max_samples = 512;
void halve(std::vector<MachineSample>& samples) {
  for (std::size_t i = 0; 2 * i + 1 < samples.size(); ++i) {
    MachineSample both = samples[2 * i + 1];
    both.worker_cpu = (both.worker_cpu + samples[2 * i].worker_cpu) / 2;
    both.worker_rss = std::max(both.worker_rss, samples[2 * i].worker_rss);
    both.processes = std::max(both.processes, samples[2 * i].processes);
    if (both.gpu && samples[2 * i].gpu) both.gpu = merged(*samples[2 * i].gpu, *both.gpu);
    samples[i] = both;
  }
  samples.resize(samples.size() / 2);
}

}  // namespace

WorkerWatch::WorkerWatch(const ConversationPlan& plan, const WorkerProcess& worker,
                         ConversationResult& result)
    : plan_(plan),
      worker_(worker),
      result_(result),
      threads_(plan.worker.cores),
      sample_seconds_(plan.sample_seconds) {
  if (plan.cuda) gpu_.emplace(nvml_access(), *plan.cuda);
}

void WorkerWatch::begin_steps() {
  keep_samples_ = true;
  threads_.begin(process_tree(worker_.pid()));
  gpu_phase_ = GpuPhase::steps;
  if (gpu_) sample();
}

void WorkerWatch::end_steps() {
  if (gpu_) sample();
  threads_.look(process_tree(worker_.pid()));
  result_.strayed_to = threads_.outside();
  result_.confined_to = threads_.confined_to();
  keep_samples_ = false;
  gpu_phase_ = GpuPhase::afterwards;
  run_begin_.reset();
}

// Counts the time since the sample before, if the worker is stopped.
void WorkerWatch::note_stopped_worker() {
  const Clock::time_point now = Clock::now();
  const Clock::time_point before = std::exchange(sampled_, now);
  if (!run_begin_ || !sampler_.is_stopped()) return;
  const Clock::time_point begin = std::max(before, *run_begin_);
  result_.standstills.push_back(
      {nanoseconds_at(begin), nanoseconds_at(now), std::chrono::duration<double>(now - begin).count()});
}

void WorkerWatch::sample() {
  if (plan_.sample_seconds <= 0) return;
  auto sample = sampler_.sample(worker_.pid());
  const auto reading = gpu_ ? gpu_->sample(sampler_.processes(), gpu_phase_) : std::nullopt;
  note_stopped_worker();
  if (keep_samples_) threads_.look_outside(sampler_.processes());
  if (sample && keep_samples_) {
    sample->gpu = reading;
    result_.samples.push_back(std::move(*sample));
  }
  if (result_.samples.size() >= max_samples) {
    halve(result_.samples);
    sample_seconds_ *= 2;
  }
  next_sample_ = Clock::now() + duration_of(sample_seconds_);
}

std::optional<WorkerWatch::Clock::time_point> WorkerWatch::next_sample() const {
  return plan_.sample_seconds > 0 ? std::optional(next_sample_) : std::nullopt;
}

std::optional<GpuUse> WorkerWatch::gpu_use() const {
  return gpu_ ? std::optional(gpu_->use()) : std::nullopt;
}

std::string WorkerWatch::gpu_memory() {
  if (!gpu_) return {};
  sample();
  return gpu_->memory_text();
}

}  // namespace assay
