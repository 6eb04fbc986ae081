// The cells of a single op: its own axes, and the sets of operands that its steps rotate.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/conductor/config/cell.hpp"
#include "harness/conductor/config/options.hpp"
#include "workloads/workload_registry.hpp"

namespace assay {

using AxisLists = std::vector<std::pair<std::string, std::vector<std::string>>>;

// The values of every axis that applies to cells of that kind; {""} if not given. The last axis changes
// fastest. Without workload, backend and mode, which expand() handles itself.
AxisLists axis_lists(CellKind kind, const OptionValues& values);

// Expands "op/*" to every single op.
std::vector<std::string> named_workloads(const std::vector<std::string>& names,
                                         const WorkloadRegistry& workloads);

// The values to multiply out for an op. Default size: its sweep (with `quick` the first and the default one,
// and the four cheapest of a given long list). Default task: infer, and train if it has a gradient. Throws
// ConfigError, prefixed with `where`, for an axis of networks.
AxisLists op_axes(const OpWorkload& op, const OptionValues& values, bool quick, std::string_view where);
// Throws ConfigError if an axis of single ops is given for a network.
void reject_op_axes(const std::string& workload, const OptionValues& values, std::string_view where);

// Fills the axes of a cell whose workload, backend and mode are set, from a point of op_axes(). A cell that
// cannot run becomes `unsupported`. Throws GraphError for a size that is malformed.
void resolve_op(Cell& cell, const OpWorkload& op, const OptionValues& point);
// Sets `measure` of a cell with its program to rotate operands: one set if the cache is warm, else as many as are
// together twice the size of the last-level cache. A cell with too many of them becomes `unsupported`.
void rotate_operands(Cell& cell);

}  // namespace assay
