// The cells of a single op: its own axes, and the operands that its steps go through.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/conductor/config/cell.hpp"
#include "harness/conductor/config/options.hpp"

namespace assay {

using AxisLists = std::vector<std::pair<std::string, std::vector<std::string>>>;

// The values of every axis that applies to cells of that kind, the one that runs fastest last; {""} where it was not given.
// Without workload, backend and mode, which the expansion goes through itself.
AxisLists axis_lists(CellKind kind, const OptionValues& values);

// "op/*" stands for every single op.
std::vector<std::string> named_workloads(const std::vector<std::string>& names);

// What is multiplied out for an op. Without a size its sweep (with `quick` the first and the default one, and
// of a long list the four cheapest), without a task infer, and train where it has a gradient. Throws
// ConfigError, led by `where`, for an axis of networks.
AxisLists op_axes(const std::string& workload, const OptionValues& values, bool quick,
                  std::string_view where);
// Throws ConfigError when an axis of single ops is given for a network.
void refuse_op_axes(const std::string& workload, const OptionValues& values, std::string_view where);

// Fills the axes of a cell whose workload, backend and mode are set, from a point of op_axes(); `measure`
// becomes that of rotating operands: one set where the cache is warm, else so many that they are twice the
// last-level cache. A cell that cannot be is `unsupported`. Throws GraphError for a size that is none, or
// that the op refuses.
void settle_op(Cell& cell, const OptionValues& point);

}  // namespace assay
