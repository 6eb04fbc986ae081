#include "harness/graph/training_step.hpp"

#include "harness/graph/autodiff.hpp"
#include "harness/graph/op.hpp"
#include "harness/graph/walk.hpp"

namespace assay {
namespace {

Attributes optimizer_attributes(const OptimizerSpec& spec) {
  Attributes attributes{{"weight_decay", spec.weight_decay}};
  if (spec.kind == "sgd") attributes.set("momentum", spec.momentum);
  if (spec.kind == "rmsprop") attributes.set("decay", spec.decay);
  if (spec.kind == "adam") {
    attributes.set("beta1", spec.beta1);
    attributes.set("beta2", spec.beta2);
  }
  if (spec.kind != "sgd") attributes.set("epsilon", spec.epsilon);
  return attributes;
}

// Adds the node that updates one parameter, its moments, and the updates.
void add_optimizer(Graph& graph, const OptimizerSpec& spec, ValueId schedule, ValueId parameter,
                   ValueId gradient) {
  const Op& op = find_op(spec.kind);
  const std::string name = graph.value(parameter).name;
  const TensorType type = graph.value(parameter).type;
  std::vector<ValueId> inputs{schedule, parameter, gradient};
  for (const std::string& moment : spec.moments()) {
    inputs.push_back(graph.add_value(name + "." + moment, type, Role::state, "zeros"));
  }
  std::vector<bool> wanted(op.results().size(), true);
  for (std::size_t i = inputs.size(); i < op.operands().size(); ++i) {
    inputs.push_back(none);
    wanted[i - 2] = false;
  }
  const std::vector<ValueId> results =
      graph.node(graph.add_node(op, name + ".update", inputs, optimizer_attributes(spec), wanted)).outputs;
  graph.add_update(parameter, results[0]);
  for (std::size_t i = 1; i < results.size(); ++i) {
    if (results[i] != none) graph.add_update(inputs[i + 2], results[i]);
  }
}

}  // namespace

Graph training_step(const Program& program, const TrainingStepOptions& options) {
  check_optimizer(program.optimizer);
  Graph graph = program.training;
  const ValueId loss = graph.output("loss");
  const std::vector<bool> reaching = ancestors(graph, {loss});
  std::vector<ValueId> parameters;
  for (const ValueId id : graph.with_role(Role::parameter)) {
    if (reaching[static_cast<std::size_t>(id)]) parameters.push_back(id);
  }
  const std::vector<ValueId> gradients = differentiate(graph, loss, parameters);
  const ValueId schedule = graph.add_value("schedule", {DType::f32, {2}}, Role::schedule);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    add_optimizer(graph, program.optimizer, schedule, parameters[i], gradients[i]);
    if (options.gradients_as_outputs) {
      graph.add_output("gradient/" + graph.value(parameters[i]).name, gradients[i]);
    }
  }
  if (!options.logits_as_output) graph.remove_output("logits");
  return apply_precision(graph.pruned(), options.precision);
}

Graph inference_step(const Program& program, const Precision& precision) {
  return apply_precision(program.inference.pruned(), precision);
}

}  // namespace assay
