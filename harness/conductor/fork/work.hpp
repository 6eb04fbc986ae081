// The memory plan and the work of a cell's program, known before anything runs.
#pragma once

#include "harness/conductor/config/cell.hpp"
#include "harness/report/report.hpp"

namespace assay {

// The graph of a step of a task, unfused; for task decode, of one token.
Graph step_of(const Program& program, const Axes& axes);

// "plan_naive", "plan_in_place", "plan_co_share_only", "plan_co_share" and "plan_lower_bound": bytes of the
// arena of one step of the cell's task and precision, unfused and with plain layouts; "plan_saving":
// plan_naive / plan_co_share. Null with a reason if the cell has no program.
Metrics plan_metrics(const Cell& cell);

// FLOPs of all nodes of the step (forward; for task train with loss, backward and update; for task decode of the
// prompt and of every token after it), counted as in docs/reference/operators.md and `assay inspect`. Bytes only for a single op: its operands once and its
// results once, as the graph stores them; 0 for a network, and for an op that may move nothing. Leaves the
// peaks at 0. Throws GraphError.
Work work_of(const Cell& cell);

}  // namespace assay
