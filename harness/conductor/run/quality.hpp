// Whether the numbers of a fork may be trusted: what disturbed it while it was timed. docs/data-and-clock.md says how the
// limits were set.
#pragma once

#include <string>
#include <vector>

#include "harness/conductor/config/cell.hpp"
#include "harness/report/report.hpp"

namespace assay {

// "preempted"   over half of the timed blocks had more than 50 involuntary switches a second and lost more
// than 3 % of the
//               time of the cell's threads: a kernel thread that runs for microseconds is no disturbance
// "stolen"      the hypervisor took more than 1 % of the timed blocks
// "throttled"   the clock of the first core fell below 0.9 of its highest; or the GPU lowered its own in the
// timed blocks
//               because it was too hot or was told to (hw_slowdown, hw_power_brake_slowdown)
// "not_steady"  the medians of the first and the second half of four or more timed blocks differ by more than
// 10 %, or
//               the warm-up never settled
// "not_finite"  the loss was not a number
// "profiled"    operators were timed, which slows the steps
// Adds to fork.flags, each once.
void add_quality_flags(Fork& fork, const Cell& cell);

// What of the GPU may have moved the numbers of a fork and is the rule on machines that nobody prepared, so that
// it costs no rank: foreign processes on it, clocks that are not locked (the SM clock changed by more than 2 %
// in the timed blocks), a power cap. Each is "what was seen: what helps". Adds to fork.warnings.
void add_warnings(Fork& fork);

}  // namespace assay
