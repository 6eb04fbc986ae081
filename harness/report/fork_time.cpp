#include "harness/report/fork_time.hpp"

#include <algorithm>
#include <vector>

#include "harness/measure/statistics.hpp"

namespace assay {

std::optional<ForkTime> fork_time(const Fork& fork) {
  int last_epoch = 0;
  for (const Block& block : fork.blocks) last_epoch = std::max(last_epoch, block.epoch);
  ForkTime time;
  std::vector<double> steps, cpu;
  for (const Block& block : fork.blocks) {
    if (block.kind != "timed" || block.steps < 1 || block.end_ns <= block.begin_ns) continue;
    if (last_epoch > 1 && block.epoch == 1) continue;
    const double count = static_cast<double>(block.steps);
    steps.push_back(1e-9 * static_cast<double>(block.end_ns - block.begin_ns) / count);
    cpu.push_back(1e-9 * static_cast<double>(block.cpu_ns) / count);
    time.steps += block.steps;
  }
  if (steps.empty()) return std::nullopt;
  time.step_seconds = median(steps);
  time.cpu_seconds = median(cpu);
  return time;
}

}  // namespace assay
