// Whether the numbers of a fork can be trusted: what disturbed it while it was timed. docs/explanation/clock.md
// says how the limits were chosen.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/conductor/config/cell.hpp"
#include "harness/report/report.hpp"

namespace assay {

// Adds to fork.flags, each flag at most once (quality_flag of report/fork_time.hpp):
//
//   disturbed   others used more than 3 % of the worker's processors, see Disturbance
//   stolen      the hypervisor took more than 3 % of them; also a warning
//   throttled   in a sample of the timed blocks the GPU gave as the reason for its clocks sw_thermal_slowdown,
//               hw_thermal_slowdown, hw_slowdown or hw_power_brake_slowdown
//   profiled    operators were timed, which slows the steps
void add_quality_flags(Fork& fork, const Cell& cell);

// When the conductor said `run` and when it heard the answer: nanoseconds of CLOCK_MONOTONIC, as in a block.
struct RunWindow {
  std::int64_t begin_ns = 0, end_ns = 0;
};
// In words, which block contradicts the conductor's clock or the block before it, or has more steps than nanoseconds; empty:
// none. A worker measures its own steps; it cannot have measured outside of the time in which it ran.
std::string outside_of_window(const Fork& fork, const RunWindow& window);

// Adds to fork.warnings what else may have moved its numbers, and costs it no rank; each is "what was seen: what helps".
// The time of a step had not settled, or differs by more than 10 % between the halves of the steady blocks; the clock of
// the first core fell below 0.9 of its maximum in the timed blocks. Of the GPU: foreign processes on it, clocks that are
// not locked (the SM clock changed by more than 2 % in the timed blocks), a power cap.
void add_warnings(Fork& fork);

}  // namespace assay
