#include "harness/conductor/config/op_cells.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/conductor/config/execution_axes.hpp"
#include "harness/core/error.hpp"
#include "harness/graph/op.hpp"
#include "harness/graph/passes/training_step.hpp"
#include "harness/machine/environment.hpp"
#include "workloads/ops/op_workload.hpp"

namespace assay {
namespace {

constexpr std::int64_t most_sets = 16384;
constexpr std::size_t most_quick_sizes = 4;
constexpr std::array<std::string_view, 9> own_axes = {
    "task", "precision", "size", "cache", "threads", "compile-cache", "deterministic", "device", "layout"};
constexpr std::array<std::string_view, 3> shared_axes = {"workload", "backend", "mode"};

bool has(std::span<const std::string_view> names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

void refuse_network_axes(const std::string& op, const OptionValues& values, std::string_view where) {
  for (const Option& option : options()) {
    const bool fits =
        option.scope != OptionScope::axis || has(own_axes, option.name) || has(shared_axes, option.name);
    if ((fits && option.name != "epochs") || !values.contains(option.name)) continue;
    throw ConfigError(
        fmt::format("{}: [{}] {} is a single op: it has a size and a cache, and is timed in steps", where,
                    option.name, op));
  }
}

// The sizes that cost least, in the order in which they were given: a long list is cut to these with --quick.
std::vector<std::string> cheapest(const OpWorkload& op, const std::vector<std::string>& sizes,
                                  std::size_t count) {
  const auto cost_of = [&op](const std::string& size) {
    const Graph step = inference_step(op.program(size), {});
    double total = static_cast<double>(input_elements(step));
    for (const Node& node : step.nodes()) total += cost(step, node).flops;
    return total;
  };
  std::vector<double> costs;
  for (const std::string& size : sizes) costs.push_back(cost_of(size));
  std::vector<double> sorted = costs;
  std::sort(sorted.begin(), sorted.end());
  std::vector<std::string> kept;
  for (std::size_t i = 0; i < sizes.size() && kept.size() < count; ++i) {
    if (costs[i] <= sorted[count - 1]) kept.push_back(sizes[i]);
  }
  return kept;
}

// Warm: one set of operands. Cold: sets that are twice the last-level cache together.
void rotate_operands(Cell& cell) {
  const Program program = cell.program();
  cell.measure.resident_batches = 1;
  if (cell.axes.cache == "warm") return;
  static const std::int64_t cache = last_level_cache(environment());
  const std::int64_t bytes =
      input_elements(program.graph(cell.axes.task)) * static_cast<std::int64_t>(sizeof(float));
  cell.measure.resident_batches = 2 * cache / bytes + 2;
  if (cell.measure.resident_batches <= most_sets || !cell.runnable()) return;
  cell.status = Status::unsupported;
  cell.reason = fmt::format(
      "{} bytes of operands stay in the last-level cache of {} bytes even as {} sets: a cold cell needs {} "
      "bytes",
      bytes, cache, most_sets, 2 * cache / most_sets + 1);
}

}  // namespace

std::vector<std::string> named_workloads(const std::vector<std::string>& names) {
  std::vector<std::string> all;
  for (const std::string& name : names) {
    if (name != "op/*") {
      all.push_back(name);
      continue;
    }
    for (const OpWorkload& op : all_op_workloads()) all.push_back(op.name);
  }
  return all;
}

AxisLists op_axes(const std::string& workload, const OptionValues& values, bool quick,
                  std::string_view where) {
  refuse_network_axes(workload, values, where);
  try {
    const OpWorkload& op = find_op_workload(workload);
    AxisLists lists;
    for (const std::string_view axis : own_axes) {
      std::vector<std::string> list = list_of(values, axis);
      if (list.empty() && axis == "task") list = {"infer"};
      if (axis == "task" && list.size() == 1 && !values.contains("task") && op.differentiable)
        list = {"infer", "train"};
      if (list.empty() && axis == "size") {
        list = op.sizes;
        if (quick) list = {op.sizes.front(), op.default_size};
      }
      if (quick && axis == "size" && list.size() > most_quick_sizes)
        list = cheapest(op, list, most_quick_sizes);
      if (list.empty()) list = {""};
      lists.emplace_back(axis, std::move(list));
    }
    return lists;
  } catch (const GraphError& error) {
    throw ConfigError(fmt::format("{}: {}", where, error.what()));
  }
}

void refuse_op_axes(const std::string& workload, const OptionValues& values, std::string_view where) {
  for (const char* axis : {"size", "cache"}) {
    if (!values.contains(axis)) continue;
    throw ConfigError(
        fmt::format("{}: [{}] {} is no single op: it has a batch and a data set", where, axis, workload));
  }
}

void settle_op(Cell& cell, const OptionValues& point) {
  const OpWorkload& op = find_op_workload(cell.axes.workload);
  Axes& axes = cell.axes;
  settle_execution(axes, point, "infer");
  axes.batch = 1;
  axes.loader = "resident";
  axes.loader_workers = 0;
  axes.measure = "steps";
  axes.size = op.canonical(text_of(point, "size"));
  axes.cache = axis_or(point, "cache", "warm");
  if (axes.task == "train" && !op.differentiable) {
    cell.status = Status::unsupported;
    cell.reason = fmt::format("[{}] has no gradient", op.name);
  }
  rotate_operands(cell);
}

}  // namespace assay
