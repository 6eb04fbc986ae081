#include "harness/graph/passes/training_step.hpp"

#include <array>

#include "harness/graph/op.hpp"
#include "harness/graph/ops/op_list.hpp"
#include "harness/graph/passes/autodiff.hpp"
#include "harness/graph/passes/drawn_masks.hpp"
#include "harness/graph/passes/walk.hpp"

namespace assay {
namespace {

Attributes optimizer_attributes(const OptimizerSpec& spec, const Shape& parameter) {
  Attributes attributes{{"weight_decay", spec.decay_of(parameter)}};
  if (spec.kind == "sgd") attributes.set("momentum", spec.momentum);
  if (spec.kind == "rmsprop") attributes.set("decay", spec.decay);
  if (spec.kind == "adam" || spec.kind == "lazy_adam") {
    attributes.set("beta1", spec.beta1);
    attributes.set("beta2", spec.beta2);
  }
  if (spec.kind != "sgd") attributes.set("epsilon", spec.epsilon);
  return attributes;
}

// A parameter's gradient: dense, or the touched rows alone.
struct Gradient {
  ValueId value = none;    // of the parameter's shape, or (K, D)
  ValueId touched = none;  // i32 (K); none: dense
};

Gradient gradient_of(const Graph& graph, ValueId value) {
  const Node& producer = graph.node(graph.value(value).producer);
  if (producer.op != &embedding_row_gradient_op()) return {value, none};
  return {value, producer.outputs[1]};
}

// The same gradient in the parameter's shape.
ValueId dense(Graph& graph, const Gradient& gradient, ValueId parameter) {
  if (gradient.touched == none) return gradient.value;
  const std::string name = graph.value(parameter).name + ".dense_gradient";
  if (const ValueId there = graph.find(name); there != none) return there;
  const std::array inputs{gradient.value, gradient.touched};
  const std::int64_t rows = graph.value(parameter).type.shape.front();
  return graph.node(graph.add_node(dense_rows_op(), name, inputs, {{"rows", rows}})).outputs[0];
}

// The op that updates a parameter with such a gradient: lazy_adam is adam where all is touched, and all other
// optimizers take dense gradients.
const Op& optimizer_op(const OptimizerSpec& spec, const Gradient& gradient) {
  if (spec.kind != "lazy_adam") return find_op(spec.kind);
  return gradient.touched == none ? adam_op() : lazy_adam_op();
}

// Adds the node that updates one parameter, its moments, and the updates.
void add_optimizer(Graph& graph, const OptimizerSpec& spec, ValueId schedule, ValueId parameter,
                   const Gradient& gradient) {
  const Op& op = optimizer_op(spec, gradient);
  const std::string name = graph.value(parameter).name;
  const TensorType type = graph.value(parameter).type;
  std::vector<ValueId> inputs{schedule, parameter};
  if (&op == &lazy_adam_op()) {
    inputs.insert(inputs.end(), {gradient.value, gradient.touched});
  } else {
    inputs.push_back(dense(graph, gradient, parameter));
  }
  const std::size_t moments = inputs.size();
  for (const std::string& moment : spec.moments()) {
    inputs.push_back(graph.add_value(name + "." + moment, type, Role::state, "zeros"));
  }
  std::vector<bool> wanted(op.results().size(), true);
  for (std::size_t i = inputs.size(); i < op.operands().size(); ++i) {
    inputs.push_back(none);
    wanted[i - moments + 1] = false;
  }
  const std::vector<ValueId> results =
      graph.node(graph.add_node(op, name + ".update", inputs, optimizer_attributes(spec, type.shape), wanted))
          .outputs;
  graph.add_update(parameter, results[0]);
  for (std::size_t i = 1; i < results.size(); ++i) {
    if (results[i] != none) graph.add_update(inputs[moments + i - 1], results[i]);
  }
}

// Results and gradients of a single op.
Graph op_step(const Program& program, const Precision& precision) {
  Graph graph = with_drawn_masks(program.training);
  std::vector<std::pair<ValueId, ValueId>> given;
  for (const auto& [output, name] : program.cotangents)
    given.emplace_back(graph.output(output), graph.find(name));
  std::vector<ValueId> inputs;
  for (const ValueId id : differentiated_inputs(program))
    inputs.push_back(graph.find(program.training.value(id).name));
  const std::vector<ValueId> gradients = differentiate(graph, given, inputs);
  for (std::size_t i = 0; i < inputs.size(); ++i)
    graph.add_output("gradient/" + graph.value(inputs[i]).name, gradients[i]);
  return apply_precision(graph.pruned(), precision);
}

}  // namespace

Graph training_step(const Program& program, const TrainingStepOptions& options) {
  if (program.is_op()) return op_step(program, options.precision);
  check_optimizer(program.optimizer);
  Graph graph = with_drawn_masks(program.training);
  const ValueId loss = graph.output("loss");
  const std::vector<bool> reaching = ancestors(graph, {loss});
  std::vector<ValueId> parameters;
  for (const ValueId id : graph.with_role(Role::parameter)) {
    if (reaching[static_cast<std::size_t>(id)]) parameters.push_back(id);
  }
  const std::vector<ValueId> gradients = differentiate(graph, loss, parameters);
  const ValueId drawn_by = graph.find("schedule");
  const ValueId schedule =
      drawn_by != none ? drawn_by : graph.add_value("schedule", {DType::f32, {2}}, Role::schedule);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Gradient gradient = gradient_of(graph, gradients[i]);
    add_optimizer(graph, program.optimizer, schedule, parameters[i], gradient);
    if (options.gradients_as_outputs) {
      graph.add_output("gradient/" + graph.value(parameters[i]).name, dense(graph, gradient, parameters[i]));
    }
  }
  if (!options.network_outputs) {
    for (const Graph::Output& output : program.training.outputs())
      if (output.name != "loss") graph.remove_output(output.name);
  }
  return apply_precision(graph.pruned(), options.precision);
}

Graph inference_step(const Program& program, const Precision& precision) {
  return apply_precision(with_drawn_masks(program.inference).pruned(), precision);
}

}  // namespace assay
