#include "harness/conductor/fork/work.hpp"

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

Work operations_of(const Graph& step) {
  Work work;
  for (const Node& node : step.nodes()) work.flops += cost(step, node).flops;
  return work;
}

// A step of task decode is a prompt and the tokens after it.
Work work_of(const NetworkCell&, const Cell& cell) {
  const Program& program = *cell.program;
  Work work = operations_of(step_of(program, cell.axes));
  if (cell.axes.task != Task::decode || !program.decoding) return work;
  work.flops *= static_cast<double>(program.generated());
  work.flops += operations_of(prefill_step(program, precision_of(cell.axes.precision))).flops;
  return work;
}

Work work_of(const OpCell&, const Cell& cell) {
  const Program& program = *cell.program;
  // It has no gradient.
  if (cell.axes.task == Task::train && program.cotangents.empty()) return {};
  const Graph step = step_of(program, cell.axes);
  Work work = operations_of(step);
  work.bytes = bytes_of_op(step);
  return work;
}

}  // namespace

Graph step_of(const Program& program, const Axes& axes) {
  const Precision precision = precision_of(axes.precision);
  if (axes.task == Task::train) return training_step(program, {.precision = precision});
  const bool decodes = axes.task == Task::decode && program.decoding;
  return decodes ? token_step(program, precision) : inference_step(program, precision);
}

Work work_of(const Cell& cell) {
  return std::visit([&](const auto& subject) { return work_of(subject, cell); }, cell.subject);
}

}  // namespace assay
