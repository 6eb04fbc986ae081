// The metrics of a cell: from its raw forks, its memory plan and its work.
#pragma once

#include <optional>
#include <string_view>

#include "harness/conductor/config/cell.hpp"
#include "harness/report/report.hpp"

namespace assay {

// Every metric of the metric table but those of the memory plan, by name: the median over the clean forks (over
// all ok forks where none is clean) of the fork's own value, with an exact interval. A metric is null, with a
// reason, if one of these forks has no value for it. Every metric of a cell that is not ok is null.
Metrics metrics_of(const CellReport& cell);

// One fork's own value, before any median; nothing where it has none or there is no such metric.
std::optional<double> fork_metric(const CellReport& cell, const Fork& fork, std::string_view metric);

// What the memory planner says of a cell's program: known before anything runs, and the same for all
// backends.

// "plan_naive", "plan_in_place", "plan_co_share", "plan_lower_bound" in bytes of the arena of one step of the
// cell's task and precision, unfused and with plain layouts, and "plan_saving", the first over the third.
// Null with a reason where the cell has no program.
Metrics plan_metrics(const Cell& cell);

// FLOPs of all nodes of the step (forward; for task train with loss, backward and update), as
// docs/operators.md and `assay inspect` count them. Bytes of a single op alone: its operands once and its
// results once, as the graph stores them; 0 for a network, and for an op that may move nothing. The peaks are
// left 0. Throws GraphError.
Work work_of(const Cell& cell);

}  // namespace assay
