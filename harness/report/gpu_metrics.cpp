#include "harness/report/gpu_metrics.hpp"

#include <algorithm>

#include "harness/report/fork_time.hpp"

namespace assay {
namespace {

constexpr double utilisation_ns = 1e9;  // the longest of NVML's sample periods
constexpr double min_covered = 0.9;

// Why the fork has no reading at all; empty if it has one.
std::string not_sampled(const Fork& fork) {
  if (!fork.gpu) return "the GPU was not sampled";
  return fork.gpu->reason;
}

std::string missing(const Fork& fork, const char* field, const char* otherwise) {
  const auto found = fork.gpu->missing.find(field);
  return found == fork.gpu->missing.end() ? otherwise : found->second;
}

// Without overflow, whatever a report says.
double nanoseconds(std::int64_t from, std::int64_t to) {
  return static_cast<double>(to) - static_cast<double>(from);
}

bool is_in(const std::vector<const Block*>& blocks, std::int64_t time) {
  return std::any_of(blocks.begin(), blocks.end(),
                     [time](const Block* block) { return block->begin_ns <= time && time <= block->end_ns; });
}

// The share of the time before `end` in which steps of any kind ran.
double share_of_steps(const Fork& fork, std::int64_t end) {
  double covered = 0;
  for (const Block& block : fork.blocks) {
    const double before_end = std::min(nanoseconds(block.begin_ns, end), utilisation_ns);
    const double left = nanoseconds(std::min(block.end_ns, end), end);
    if (before_end > left) covered += before_end - left;
  }
  return covered / utilisation_ns;
}

struct Energy {
  std::int64_t time_ns = 0;
  double joules = 0;
};

std::vector<Energy> counter_of(const Fork& fork) {
  std::vector<Energy> counter;
  for (const MachineSample& sample : fork.samples)
    if (sample.gpu && sample.gpu->energy_joules)
      counter.push_back({sample.time_ns, *sample.gpu->energy_joules});
  return counter;
}

double counter_at(const std::vector<Energy>& counter, std::int64_t time) {
  const auto after = std::lower_bound(counter.begin(), counter.end(), time,
                                      [](const Energy& e, std::int64_t t) { return e.time_ns < t; });
  if (after == counter.begin()) return counter.front().joules;
  if (after == counter.end()) return counter.back().joules;
  const Energy &next = *after, &last = *(after - 1);
  const double share = nanoseconds(last.time_ns, time) / nanoseconds(last.time_ns, next.time_ns);
  return last.joules + share * (next.joules - last.joules);
}

ForkValue peak(const Fork& fork, const std::optional<std::int64_t>& bytes, const char* field) {
  if (bytes) return {static_cast<double>(*bytes), ""};
  return {{}, missing(fork, field, "the worker ended before the GPU was sampled")};
}

}  // namespace

std::vector<const MachineSample*> timed_gpu_samples(const Fork& fork) {
  const auto blocks = steady_blocks(fork);
  std::vector<const MachineSample*> found;
  for (const MachineSample& sample : fork.samples)
    if (sample.gpu && is_in(blocks, sample.time_ns)) found.push_back(&sample);
  return found;
}

ForkValue gpu_utilisation(const Fork& fork) {
  if (std::string why = not_sampled(fork); !why.empty()) return {{}, why};
  double sum = 0;
  int count = 0;
  bool seen = false;
  for (const MachineSample* sample : timed_gpu_samples(fork)) {
    seen = seen || sample->gpu->utilisation;
    if (share_of_steps(fork, sample->time_ns) < min_covered) continue;
    if (!sample->gpu->utilisation)
      return {{}, missing(fork, "gpu_utilisation", "a sample lacks it without a reason")};
    sum += *sample->gpu->utilisation;
    ++count;
  }
  if (count > 0) return {sum / count, ""};
  const char* too_short =
      "the timed blocks are too short: NVML's utilisation covers up to a second before a sample, and no sample "
      "covered only steps; use more --blocks or --block-seconds";
  return {{}, seen ? too_short : missing(fork, "gpu_utilisation", too_short)};
}

ForkValue gpu_power(const Fork& fork) {
  if (std::string why = not_sampled(fork); !why.empty()) return {{}, why};
  const auto counter = counter_of(fork);
  const char* too_short =
      "the timed blocks are too short, or are outside of the samples: they must contain two samples; use more "
      "--blocks or --block-seconds";
  if (counter.empty()) return {{}, missing(fork, "gpu_energy_joules", too_short)};
  const auto blocks = steady_blocks(fork);
  const auto inside = std::count_if(counter.begin(), counter.end(),
                                    [&](const Energy& energy) { return is_in(blocks, energy.time_ns); });
  double joules = 0, covered = 0, all = 0;
  for (const Block* block : blocks) {
    const std::int64_t from = std::max(block->begin_ns, counter.front().time_ns),
                       to = std::min(block->end_ns, counter.back().time_ns);
    all += block_seconds(*block);
    if (to <= from) continue;
    covered += 1e-9 * nanoseconds(from, to);
    joules += counter_at(counter, to) - counter_at(counter, from);
  }
  if (inside < 2 || covered < min_covered * all) return {{}, missing(fork, "gpu_energy_joules", too_short)};
  if (joules < 0) return {{}, "NVML's energy counter ran backwards: the driver was loaded again"};
  return {joules / covered, ""};
}

ForkValue gpu_energy(const Fork& fork) {
  ForkValue power = gpu_power(fork);
  if (!power.value) return power;
  double seconds = 0, steps = 0;
  for (const Block* block : steady_blocks(fork)) {
    seconds += block_seconds(*block);
    steps += static_cast<double>(block->steps);
  }
  return {*power.value * seconds / steps, ""};
}

ForkValue device_peak_memory(const Fork& fork) {
  if (std::string why = not_sampled(fork); !why.empty()) return {{}, why};
  return peak(fork, fork.gpu->worker_peak, "gpu_worker_memory");
}

ForkValue device_peak_used(const Fork& fork) {
  if (std::string why = not_sampled(fork); !why.empty()) return {{}, why};
  return peak(fork, fork.gpu->device_peak, "gpu_device_memory");
}

}  // namespace assay
