#include "harness/conductor/config/cell.hpp"

#include <algorithm>
#include <cmath>

namespace assay {
namespace {

// No training step is shorter, and a block is at most twice as long as requested.
constexpr double min_step_seconds = 15e-6;
constexpr double sizing_slack = 2;
constexpr double max_rows = 4e6;  // 64 MB

}  // namespace

std::int64_t schedule_rows(const MeasurePlan& measure, std::int64_t batch, std::int64_t training_samples) {
  if (measure.epochs > 0) return measure.epochs * (training_samples / batch);
  const auto by_time = [](double seconds) { return sizing_slack * seconds / min_step_seconds; };
  const double warm_up = static_cast<double>(measure.warm_up_steps) + by_time(measure.warm_up_seconds);
  const double timed = measure.steps > 0
                           ? static_cast<double>(measure.steps)
                           : static_cast<double>(measure.blocks) * (by_time(measure.block_seconds) + 1);
  return static_cast<std::int64_t>(std::min(std::ceil(warm_up + timed) + 64, max_rows));
}

std::vector<double> training_schedule(const RateSchedule& schedule, double base_rate, std::int64_t rows,
                                      std::int64_t steps_per_epoch) {
  std::vector<double> values;
  values.reserve(static_cast<std::size_t>(2 * rows));
  for (std::int64_t row = 0; row < rows; ++row) {
    values.push_back(schedule.rate(base_rate, row, steps_per_epoch));
    values.push_back(static_cast<double>(row + 1));
  }
  return values;
}

}  // namespace assay
