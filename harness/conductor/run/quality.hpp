// Whether the numbers of a fork can be trusted: what disturbed it while it was timed. docs/data-and-clock.md
// says how the limits were chosen.
#pragma once

#include <string>
#include <vector>

#include "harness/conductor/config/cell.hpp"
#include "harness/report/report.hpp"

namespace assay {

// Adds to fork.flags, each flag at most once:
//
//   preempted   in more than half of the timed blocks there were more than 50 involuntary switches per
//               second, and the cell's threads lost more than 3 % of their time. (A kernel thread that runs
//               for microseconds causes a switch but costs no time.)
//   stolen      the hypervisor took more than 1 % of the time of the timed blocks
//   throttled   the clock of the first core fell below 0.9 of its highest value; or in a sample of the timed
//               blocks the GPU gave as the reason for its clocks sw_thermal_slowdown, hw_thermal_slowdown,
//               hw_slowdown or hw_power_brake_slowdown
//   not_steady  with four or more timed blocks: the medians of the time per step in the first and the second
//               half differ by more than 10 %. (cell_folder.cpp also sets it if the warm-up did not become
//               steady.)
//   profiled    operators were timed, which slows the steps
void add_quality_flags(Fork& fork, const Cell& cell);

// What of the GPU may have moved the numbers of a fork and is the rule on machines that nobody prepared, so
// that it costs no rank: foreign processes on it, clocks that are not locked (the SM clock changed by more
// than 2 % in the timed blocks), a power cap. Each is "what was seen: what helps". Adds to fork.warnings.
void add_warnings(Fork& fork);

}  // namespace assay
