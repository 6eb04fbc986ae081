#include "harness/engine/device_times.hpp"

#include <algorithm>
#include <cmath>

namespace assay {
namespace {

// As in backends/python/assay_worker/device_times.py.
constexpr double seconds_of_run = 0.02;    // about
constexpr double seconds_of_trial = 1e-3;  // then the launch, which takes some microseconds, is little of it
constexpr double max_seconds_of_pass = 0.2;    // more operands than that reads are in no cache
constexpr std::int64_t max_kernels = 1 << 16;  // of a run: a larger graph takes seconds to make
constexpr std::int64_t growth = 8;             // from one trial to the next
constexpr int runs = 5, min_runs = 3;
constexpr double long_step = 1;  // seconds; then there are the fewest runs

std::int64_t steps_in(double seconds, double step) {
  constexpr double any_number = 1e9;
  return std::llround(std::min(seconds / step, any_number));
}

// Whole passes over the operands.
std::int64_t steps_of_run(std::int64_t slots, std::int64_t max_steps, double step) {
  const std::int64_t wanted = std::clamp<std::int64_t>(steps_in(seconds_of_run, step), 1, max_steps);
  if (wanted >= slots) return wanted / slots * slots;
  const std::int64_t pass = std::max(wanted, std::min(slots, steps_in(max_seconds_of_pass, step)));
  if (pass > max_steps) throw Unsupported("[time_device] the op has too many operands for one graph");
  return pass;
}

}  // namespace

DeviceTimes times_of(std::int64_t slots, std::int64_t kernels,
                     const std::function<std::unique_ptr<Recording>(std::int64_t)>& record) {
  const std::int64_t max_steps = std::max<std::int64_t>(1, max_kernels / kernels);
  std::int64_t tried = 1;
  double seconds = record(tried)->seconds();
  while (seconds < seconds_of_trial && tried < max_steps) {
    tried = std::min(growth * tried, max_steps);
    seconds = record(tried)->seconds();
  }
  const double step = seconds / static_cast<double>(tried);
  DeviceTimes times{.steps = steps_of_run(slots, max_steps, step)};
  const std::unique_ptr<Recording> steps = record(times.steps);
  for (int run = 0; run < (step > long_step ? min_runs : runs); ++run)
    times.step_seconds.push_back(steps->seconds() / static_cast<double>(times.steps));
  return times;
}

}  // namespace assay
