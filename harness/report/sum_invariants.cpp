#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include <fmt/format.h>

#include "harness/core/statistics.hpp"
#include "harness/report/fork_time.hpp"
#include "harness/report/invariants.hpp"
#include "harness/report/metrics.hpp"

namespace assay {
namespace {

// The range of a raw quantity over the forks that count. The metric must be within it, for any estimator.
struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  void add(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  bool seen() const { return low <= high; }
  bool holds(double value) const {
    constexpr double rounding = 1e-9;
    return value >= low - rounding * std::abs(low) && value <= high + rounding * std::abs(high);
  }
};

using Visit = std::function<void(const Fork&, Range&)>;

void judge_range(Violations& violations, const CellReport& cell, const char* name, const Visit& visit) {
  const auto found = cell.metrics.find(name);
  if (found == cell.metrics.end() || !found->second.value) return;
  Range range;
  for (const Fork* fork : forks_of_metric(cell, name)) visit(*fork, range);
  if (!range.seen())
    violations.add(fmt::format("metric {} has a value, but no fork has its raw numbers", name));
  else if (!range.holds(*found->second.value))
    violations.add(fmt::format("metric {} is {}, but the raw numbers of its forks are between {} and {}",
                               name, *found->second.value, range.low, range.high));
}

Visit last_evaluation(DataSplit split) {
  return [split](const Fork& fork, Range& range) {
    for (auto it = fork.evaluations.rbegin(); it != fork.evaluations.rend(); ++it)
      if (it->split == split) return range.add(it->accuracy);
  };
}

// Recomputes the exact value from the blocks: the median over forks of the medians over blocks.
void judge_step_time(Violations& violations, const CellReport& cell) {
  std::vector<double> steps;
  for (const Fork* fork : counted_forks(cell))
    if (const auto time = fork_time(*fork)) steps.push_back(time->step_seconds);
  const auto judge = [&](const char* name, double amount, bool is_rate) {
    const auto found = cell.metrics.find(name);
    if (found == cell.metrics.end() || !found->second.value) return;
    const double value = *found->second.value;
    if (steps.empty())
      violations.add(fmt::format("metric {} has a value, but no fork has its raw numbers", name));
    else if (const double raw = is_rate ? amount / median(steps) : median(steps);
             std::abs(value - raw) > 1e-9 * raw)
      violations.add(fmt::format("metric {} is {}, but the blocks of its forks give {}", name, value, raw));
  };
  judge("step_time", 0, false);
  judge("samples_per_second", static_cast<double>(cell.axes.batch), true);
}

void judge_gpu(Violations& violations, const CellReport& cell) {
  judge_range(violations, cell, "device_peak_memory", [](const Fork& fork, Range& range) {
    if (fork.gpu && fork.gpu->worker_peak) range.add(static_cast<double>(*fork.gpu->worker_peak));
  });
  judge_range(violations, cell, "device_peak_used", [](const Fork& fork, Range& range) {
    if (fork.gpu && fork.gpu->device_peak) range.add(static_cast<double>(*fork.gpu->device_peak));
  });
  judge_range(violations, cell, "gpu_utilisation", [](const Fork& fork, Range& range) {
    for (const MachineSample& sample : fork.samples)
      if (sample.gpu && sample.gpu->utilisation) range.add(*sample.gpu->utilisation);
  });
}

}  // namespace

void judge_sums(Violations& violations, const CellReport& cell) {
  judge_step_time(violations, cell);
  judge_range(violations, cell, "test_accuracy", last_evaluation(DataSplit::test));
  judge_range(violations, cell, "validation_accuracy", last_evaluation(DataSplit::validation));
  judge_range(violations, cell, "train_accuracy", last_evaluation(DataSplit::train));
  judge_range(violations, cell, "compile_time",
              [](const Fork& fork, Range& range) { range.add(fork.compile_seconds); });
  judge_range(violations, cell, "host_peak_rss",
              [](const Fork& fork, Range& range) { range.add(static_cast<double>(fork.host_peak_rss)); });
  judge_gpu(violations, cell);
}

}  // namespace assay
