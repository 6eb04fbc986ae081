// What a cell's program is known to do before anything runs: its memory plan and its work.
#pragma once

#include "harness/conductor/config/cell.hpp"
#include "harness/report/report.hpp"

namespace assay {

// "plan_naive", "plan_in_place", "plan_co_share", "plan_lower_bound" in bytes of the arena of one step of the
// cell's task and precision, unfused and with plain layouts, and "plan_saving", the first over the third.
// Null with a reason where the cell has no program.
Metrics plan_metrics(const Cell& cell);

// FLOPs of all nodes of the step (forward; for task train with loss, backward and update), as
// docs/reference/operators.md and `assay inspect` count them. Bytes of a single op alone: its operands once and its
// results once, as the graph stores them; 0 for a network, and for an op that may move nothing. The peaks are
// left 0. Throws GraphError.
Work work_of(const Cell& cell);

}  // namespace assay
