// Whether the numbers of a fork can be trusted: detects disturbances while it was timed.
// docs/explanation/clock.md explains the limits.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/conductor/config/cell.hpp"
#include "harness/report/report.hpp"

namespace assay {

// Adds to fork.flags, each flag at most once (quality_flag of report/fork_time.hpp):
//
//   disturbed   other processes used more than 3 % of the worker's processors, see Disturbance
//   stolen      the hypervisor took more than 3 % of them; also a warning
//   throttled   in a sample of the timed blocks the GPU reported sw_thermal_slowdown, hw_thermal_slowdown,
//               hw_slowdown or hw_power_brake_slowdown as the reason for its clocks
//   profiled    operators were timed, which slows the steps
void add_quality_flags(Fork& fork, const Cell& cell);

// The times of the command `run` and of its answer: nanoseconds of CLOCK_MONOTONIC, as in a block.
struct RunWindow {
  std::int64_t begin_ns = 0, end_ns = 0;
};
// Describes the first block that contradicts the conductor's clock or the previous block, or has more steps than
// nanoseconds; empty if there is nothing to describe. A worker measures its own steps, but they must lie within the
// time in which it ran.
std::string outside_of_window(const Fork& fork, const RunWindow& window);

// Adds other possible disturbances to fork.warnings, each as "observation: remedy"; they do not affect the
// rank. The step time had not become steady, or differs by more than 10 % between the halves of the steady
// blocks. The clock of the first core fell below 0.9 of its maximum in the timed blocks. For a GPU: other
// processes on it, clocks that are not locked (the SM clock changed by more than 2 % in the timed blocks), a
// power cap.
void add_warnings(Fork& fork);

}  // namespace assay
