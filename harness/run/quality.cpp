#include "harness/run/quality.hpp"

#include <algorithm>
#include <cmath>

#include "harness/measure/statistics.hpp"
#include "harness/report/fork_time.hpp"

namespace assay {
namespace {

constexpr double most_switches_per_second = 50;
constexpr double most_lost = 0.03;
constexpr double most_stolen = 0.01;
constexpr double least_frequency = 0.9;
constexpr double most_drift = 0.1;

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
    if (block.kind == "timed") timed.push_back(&block);
  }
  const auto add = [&](bool holds, const char* flag) {
    if (holds && std::find(fork.flags.begin(), fork.flags.end(), flag) == fork.flags.end())
      fork.flags.emplace_back(flag);
  };
  add(preempted(timed, cell.axes.threads), "preempted");
  add(stolen(timed), "stolen");
  add(throttled(fork), "throttled");
  add(drifts(timed), "not_steady");
  add(cell.profile, "profiled");
}

}  // namespace assay
