// What the memory planner says of a cell's program: known before anything runs, and the same for all
// backends.
#pragma once

#include "harness/conductor/config/cell.hpp"
#include "harness/report/report.hpp"

namespace assay {

// "plan_naive", "plan_in_place", "plan_co_share", "plan_lower_bound" in bytes of the arena of one step of the
// cell's task and precision, unfused and with plain layouts, and "plan_saving", the first over the third.
// Null with a reason where the cell has no program.
Metrics plan_metrics(const Cell& cell);

}  // namespace assay
