#include "harness/conductor/run/work.hpp"

#include <algorithm>

#include "harness/graph/op.hpp"
#include "harness/graph/passes/training_step.hpp"

namespace assay {
namespace {

// The bytes read from an input; only the looked-up rows of a table count.
double bytes_read(const Graph& step, ValueId input) {
  const double bytes = static_cast<double>(step.value(input).type.bytes());
  for (const Node& node : step.nodes()) {
    if (node.op->name() == "embedding" && node.inputs[1] == input)
      return std::min(bytes, static_cast<double>(step.value(node.outputs[0]).type.bytes()));
  }
  return bytes;
}

double bytes_of_op(const Graph& step) {
  const bool moves = std::any_of(step.nodes().begin(), step.nodes().end(),
                                 [](const Node& node) { return !node.op->view(); });
  if (!moves) return 0;
  double bytes = 0;
  for (const ValueId id : step.with_role(Role::input)) bytes += bytes_read(step, id);
  // A gradient that equals the incoming one (such as that of an addition) is not written.
  for (const Graph::Output& output : step.outputs()) {
    if (step.value(output.value).producer != none)
      bytes += static_cast<double>(step.value(output.value).type.bytes());
  }
  return bytes;
}

Graph step_of(const Program& program, const Cell& cell) {
  const Precision precision = precision_of(cell.axes.precision);
  return cell.axes.task == Task::train ? training_step(program, {.precision = precision})
                                       : inference_step(program, precision);
}

Work operations_of(const Graph& step) {
  Work work;
  for (const Node& node : step.nodes()) work.flops += cost(step, node).flops;
  return work;
}

Work work_of(const NetworkCell&, const Cell& cell) { return operations_of(step_of(cell.program(), cell)); }

Work work_of(const OpCell&, const Cell& cell) {
  const Program program = cell.program();
  // It has no gradient.
  if (cell.axes.task == Task::train && program.cotangents.empty()) return {};
  const Graph step = step_of(program, cell);
  Work work = operations_of(step);
  work.bytes = bytes_of_op(step);
  return work;
}

}  // namespace

Work work_of(const Cell& cell) {
  return std::visit([&](const auto& subject) { return work_of(subject, cell); }, cell.subject);
}

}  // namespace assay
