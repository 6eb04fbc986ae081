#include "harness/conductor/run/quality.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "harness/conductor/run/gpu_metrics.hpp"
#include "harness/core/statistics.hpp"
#include "harness/core/text.hpp"
#include "harness/report/fork_time.hpp"

namespace assay {
namespace {

constexpr double most_switches_per_second = 50;
constexpr double most_lost = 0.03;
constexpr double most_stolen = 0.01;
constexpr double least_frequency = 0.9;
constexpr double most_drift = 0.1;
constexpr double most_gpu_clock_change = 0.02;

bool preempted(const std::vector<const Block*>& timed, int threads) {
  const auto disturbed = std::count_if(timed.begin(), timed.end(), [threads](const Block* block) {
    const double thread_time = block_seconds(*block) * std::max(1, threads);
    const bool switched = static_cast<double>(block->involuntary_switches) >
                          most_switches_per_second * std::max(block_seconds(*block), 0.02);
    return switched && 1e-9 * static_cast<double>(block->cpu_ns) < (1 - most_lost) * thread_time;
  });
  return 2 * static_cast<std::size_t>(disturbed) > timed.size();
}

bool stolen(const std::vector<const Block*>& timed) {
  double all = 0, taken = 0;
  for (const Block* block : timed) {
    all += block_seconds(*block);
    taken += 1e-9 * static_cast<double>(block->steal_ns);
  }
  return taken > most_stolen * all;
}

bool throttled(const Fork& fork) {
  double low = INFINITY, high = 0;
  for (const MachineSample& sample : fork.samples) {
    if (sample.frequency_hz <= 0) continue;
    low = std::min(low, sample.frequency_hz);
    high = std::max(high, sample.frequency_hz);
  }
  return high > 0 && low < least_frequency * high;
}

constexpr std::array hard_throttles{"hw_slowdown", "sw_thermal_slowdown", "hw_thermal_slowdown",
                                    "hw_power_brake_slowdown"};

// In how many samples the GPU gave such a reason.
template <typename Reasons>
int throttles(const std::vector<const MachineSample*>& samples, const Reasons& reasons) {
  return static_cast<int>(std::count_if(samples.begin(), samples.end(), [&](const MachineSample* sample) {
    if (!sample->gpu->throttle) return false;
    return std::any_of(sample->gpu->throttle->begin(), sample->gpu->throttle->end(),
                       [&](const auto& told) { return contains(reasons, told); });
  }));
}

void warn_of_foreign_processes(Fork& fork) {
  for (const ForeignProcess& process : fork.gpu->foreign) {
    const std::string name = process.name.empty() ? "not shown here" : process.name;
    const std::string held =
        process.memory ? fmt::format("held {:.0f} MiB of", static_cast<double>(*process.memory) * 0x1p-20)
                       : "used";
    fork.warnings.push_back(fmt::format(
        "process {} ({}) {} the GPU while steps ran: stop it, or keep others off with nvidia-smi -c "
        "EXCLUSIVE_PROCESS",
        process.pid, name, held));
  }
}

void warn_of_clocks(Fork& fork, const std::vector<const MachineSample*>& samples) {
  double low = INFINITY, high = 0;
  for (const MachineSample* sample : samples) {
    if (!sample->gpu->sm_clock_hz) continue;
    low = std::min(low, *sample->gpu->sm_clock_hz);
    high = std::max(high, *sample->gpu->sm_clock_hz);
  }
  if (high <= 0 || high - low <= most_gpu_clock_change * high) return;
  fork.warnings.push_back(fmt::format(
      "the GPU's SM clock was {:.0f} to {:.0f} MHz in the timed blocks, so its clocks are not locked: "
      "nvidia-smi --lock-gpu-clocks={:.0f} holds them",
      1e-6 * low, 1e-6 * high, 1e-6 * low));
}

bool drifts(const std::vector<const Block*>& timed) {
  if (timed.size() < 4) return false;
  std::vector<double> halves[2];
  for (std::size_t i = 0; i < timed.size(); ++i) {
    halves[i < timed.size() / 2 ? 0 : 1].push_back(
        block_seconds(*timed[i]) / static_cast<double>(std::max<std::int64_t>(1, timed[i]->steps)));
  }
  const double before = median(halves[0]), after = median(halves[1]);
  return std::abs(before - after) > most_drift * std::min(before, after);
}

}  // namespace

void add_quality_flags(Fork& fork, const Cell& cell) {
  std::vector<const Block*> timed;
  for (const Block& block : fork.blocks) {
    if (block.kind == BlockKind::timed) timed.push_back(&block);
  }
  const auto add = [&](bool holds, const char* flag) {
    if (holds && !contains(fork.flags, flag)) fork.flags.emplace_back(flag);
  };
  add(preempted(timed, cell.axes.threads), "preempted");
  add(stolen(timed), "stolen");
  add(throttled(fork) || throttles(timed_gpu_samples(fork), hard_throttles) > 0, "throttled");
  add(drifts(timed), "not_steady");
  add(cell.profile, "profiled");
}

void add_warnings(Fork& fork) {
  if (!fork.gpu) return;
  const auto samples = timed_gpu_samples(fork);
  warn_of_foreign_processes(fork);
  warn_of_clocks(fork, samples);
  if (const int capped = throttles(samples, std::array{"sw_power_cap"}); capped > 0)
    fork.warnings.push_back(fmt::format(
        "the GPU lowered its clocks to stay within its power limit in {} of {} samples of the timed blocks: "
        "lock them lower, or compare ratios",
        capped, samples.size()));
}

}  // namespace assay
