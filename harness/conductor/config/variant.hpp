// The axes without a field of their own: part of a cell's identity, and of its id, only where they differ.
#pragma once

#include "harness/conductor/config/cell.hpp"
#include "harness/conductor/config/options.hpp"
#include "workloads/workload.hpp"

namespace assay {

// Whether the values of an axis make cells with these other axes differ: a schedule does not in inference, nor the
// kind of an embedding's gradient where there is no embedding. `workload` is nullptr for a single op.
bool varies(const Axis& axis, const Workload* workload, const Axes& axes);

// Sets the cell's fields from `point` (one value an axis, empty: not given) or from the workload, and axes.variant to
// what differs. An axis that does not matter to the cell is left out. Throws ConfigError. The axes with a field and
// `measure` are set before; `workload` is nullptr for a single op.
void settle_variant(Cell& cell, const Workload* workload, const OptionValues& point);

}  // namespace assay
