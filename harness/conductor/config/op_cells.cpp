#include "harness/conductor/config/op_cells.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/conductor/config/variant.hpp"
#include "harness/core/error.hpp"
#include "harness/graph/op.hpp"
#include "harness/graph/passes/training_step.hpp"
#include "harness/machine/cores.hpp"
#include "harness/machine/environment.hpp"

namespace assay {
namespace {

constexpr std::int64_t max_sets = 16384;
constexpr std::size_t max_quick_sizes = 4;

// Throws ConfigError for the first axis that is given and does not apply to cells of that kind.
void reject_axes(CellKind kind, const OptionValues& values, const std::string& what, std::string_view where) {
  for (const Axis& axis : axis_table()) {
    if (axis.applies_to(kind) || !values.contains(axis.name())) continue;
    throw ConfigError(fmt::format("{}: [{}] {}", where, axis.name(), what));
  }
}

void reject_network_axes(const std::string& op, const OptionValues& values, std::string_view where) {
  const std::string what =
      fmt::format("does not apply to {}, a single op: use --size and --cache, and time it in steps", op);
  reject_axes(CellKind::op, values, what, where);
  if (values.contains("epochs")) throw ConfigError(fmt::format("{}: [epochs] {}", where, what));
}

// The sizes that cost the least, in the given order; --quick cuts a long list to these.
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

}  // namespace

AxisLists axis_lists(CellKind kind, const OptionValues& values) {
  AxisLists lists;
  const auto add = [&](bool field, bool compared) {
    for (const Axis& axis : axis_table()) {
      const bool other = axis.name() == "workload" || axis.name() == "backend" || axis.name() == "mode";
      if (other || !axis.derived.empty() || !axis.applies_to(kind)) continue;
      if (axis.has_field() != field || (field && axis.compared != compared)) continue;
      std::vector<std::string> list = list_of(values, axis.name());
      if (list.empty()) list = {""};
      lists.emplace_back(axis.name(), std::move(list));
    }
  };
  add(true, false);
  add(true, true);
  add(false, false);
  return lists;
}

std::vector<std::string> named_workloads(const std::vector<std::string>& names,
                                         const WorkloadRegistry& workloads) {
  std::vector<std::string> all;
  for (const std::string& name : names) {
    if (name != "op/*") {
      all.push_back(name);
      continue;
    }
    for (const OpWorkload& op : workloads.ops()) all.push_back(op.name);
  }
  return all;
}

AxisLists op_axes(const OpWorkload& op, const OptionValues& values, bool quick, std::string_view where) {
  reject_network_axes(op.name, values, where);
  try {
    AxisLists lists = axis_lists(CellKind::op, values);
    for (auto& [axis, list] : lists) {
      if (axis == "task" && !values.contains("task")) {
        list = {std::string(to_string(Task::infer))};
        if (op.differentiable) list.emplace_back(to_string(Task::train));
      }
      if (axis != "size") continue;
      if (!values.contains("size")) {
        list = op.sizes;
        if (quick) list = {op.sizes.front(), op.default_size};
      }
      if (quick && list.size() > max_quick_sizes) list = cheapest(op, list, max_quick_sizes);
    }
    return lists;
  } catch (const GraphError& error) {
    throw ConfigError(fmt::format("{}: {}", where, error.what()));
  }
}

void reject_op_axes(const std::string& workload, const OptionValues& values, std::string_view where) {
  reject_axes(
      CellKind::network, values,
      fmt::format("applies only to op/* workloads: {} is a network; use --batch and --dataset", workload),
      where);
}

void resolve_op(Cell& cell, const OpWorkload& op, const OptionValues& point) {
  cell.subject = OpCell{&op};
  Axes& axes = cell.axes;
  axes.task = Task::infer;
  axes.batch = 1;
  axes.loader_workers = 0;
  axes.measure = "steps";
  axes.cache = CacheState::warm;
  axes.threads = usable_threads();
  set_fields(axes, point);
  axes.size = op.canonical(axes.size);
  resolve_variant(cell, point);
  if (axes.task == Task::train && !op.differentiable) {
    end_with(cell, ReasonCode::no_gradient,
             fmt::format("[{}] does not support task train: it has no gradient", op.name));
  }
  if (axes.task == Task::decode)
    end_with(cell, ReasonCode::no_tokens,
             fmt::format("[{}] does not support task decode: it is a single op", op.name));
}

void rotate_operands(Cell& cell) {
  cell.measure.resident_batches = 1;
  if (cell.axes.cache == CacheState::warm || !cell.runnable()) return;
  static const MachineRecord machine = environment();
  const std::int64_t cache =
      cell.axes.device == DeviceKind::cuda ? gpu_cache(machine) : last_level_cache(machine);
  const std::int64_t bytes =
      input_elements(cell.program->graph(cell.axes.task)) * static_cast<std::int64_t>(sizeof(float));
  cell.measure.resident_batches = 2 * cache / bytes + 2;
  if (cell.measure.resident_batches <= max_sets) return;
  end_with(
      cell, ReasonCode::operands_stay_in_cache,
      fmt::format(
          "a cold cell is not possible: {} bytes of operands fit in the last-level cache of {} bytes even "
          "with {} sets; use a size with at least {} bytes of operands",
          bytes, cache, max_sets, 2 * cache / max_sets + 1));
}

}  // namespace assay
