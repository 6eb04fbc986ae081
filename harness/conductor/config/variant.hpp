// The axes without a field in Axes: part of a cell's identity and id only if they differ from the default.
#pragma once

#include "harness/conductor/config/cell.hpp"
#include "harness/conductor/config/options.hpp"
#include "workloads/workload.hpp"

namespace assay {

// Whether the values of an axis make cells with these other axes differ. A schedule has no effect on
// inference, and the kind of an embedding's gradient has none without an embedding. `workload` is nullptr for
// a single op.
bool varies(const Axis& axis, const Workload* workload, const Axes& axes);

// Sets the cell's fields from `point` (one value per axis; empty: not given) or from the workload, and
// axes.variant to the differences from the default. Skips an axis that has no effect on the cell. Throws
// ConfigError. Precondition: the workload, the axes with a field and `measure` are set.
void resolve_variant(Cell& cell, const OptionValues& point);

}  // namespace assay
