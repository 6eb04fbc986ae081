// The axes that most cells leave as their workload has them (Option::variant): they are part of a cell's
// identity, and of its id, only where they differ.
#pragma once

#include <string_view>

#include "harness/conductor/config/cell.hpp"
#include "harness/conductor/config/options.hpp"
#include "workloads/workload.hpp"

namespace assay {

// Whether the values of an axis make cells differ for that workload and task: a schedule does not in
// inference, nor the kind of an embedding's gradient where there is no embedding. True for an axis that is
// none of these.
bool varies(std::string_view axis, const Workload& workload, std::string_view task);

// Sets the cell's fields from `point` (one value an axis, empty: not given) or from the workload, and
// axes.variant to what differs, in one spelling. What has no meaning for the task is left out. Throws
// ConfigError. axes.task, axes.optimizer and measure are set before.
void settle_variant(Cell& cell, const Workload& workload, const OptionValues& point);

}  // namespace assay
