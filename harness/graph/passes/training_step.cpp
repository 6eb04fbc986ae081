#include "harness/graph/passes/training_step.hpp"

#include <array>
#include <map>

#include <fmt/format.h>

#include "harness/core/error.hpp"
#include "harness/graph/op.hpp"
#include "harness/graph/ops/registry.hpp"
#include "harness/graph/passes/autodiff.hpp"
#include "harness/graph/passes/recompute.hpp"
#include "harness/graph/passes/walk.hpp"

namespace assay {
namespace {

class Drawing {
 public:
  explicit Drawing(const Graph& from) : from_(from), copy_(from) {
    schedule_ = copy_.graph().add_value("schedule", {DType::f32, {2}}, Role::schedule);
    seed_ = copy_.graph().add_value("seed", {DType::i32, {2}}, Role::seed);
    walk(from_, [&](ValueId id) { copy_.add_value(id); }, [&](NodeId id) { copy_node(from_.node(id)); });
    copy_.add_outputs();
    copy_.add_updates();
    for (const auto& [mask, drawn] : drawn_) copy_.graph().add_update(mask, drawn.value);
  }

  Graph take() { return copy_.take(); }

 private:
  struct Drawn {
    ValueId value = none;
    double rate = 0;
  };

  void copy_node(const Node& node) {
    std::vector<ValueId> inputs;
    for (const ValueId id : node.inputs) {
      const bool mask = id != none && from_.value(id).role == Role::mask;
      inputs.push_back(mask ? drawn(node, copy_.at(id)) : copy_.at(id));
    }
    copy_.add_node(node, inputs);
  }

  ValueId drawn(const Node& reader, ValueId mask) {
    const double rate = reader.attributes.number("rate");
    const auto [place, fresh] = drawn_.try_emplace(mask);
    if (fresh) {
      const std::array inputs{mask, schedule_, seed_};
      Graph& graph = copy_.graph();
      const NodeId node =
          graph.add_node(dropout_mask_op(), graph.value(mask).name + ".drawn", inputs, {{"rate", rate}});
      place->second = {graph.node(node).outputs[0], rate};
    }
    if (place->second.rate != rate) {
      throw GraphError(
          fmt::format("graph '{}': the mask '{}' is drawn with rate {}, but node '{}' drops with rate {}",
                      from_.name(), copy_.graph().value(mask).name, place->second.rate, reader.name, rate));
    }
    return place->second.value;
  }

  const Graph& from_;
  GraphCopy copy_;
  ValueId schedule_ = none, seed_ = none;
  std::map<ValueId, Drawn> drawn_;
};

}  // namespace

Graph with_drawn_masks(const Graph& graph) {
  if (graph.with_role(Role::mask).empty()) return graph;
  return Drawing(graph).take();
}

namespace {

Attributes optimizer_attributes(const OptimizerSpec& spec, const Shape& parameter) {
  Attributes attributes{{"weight_decay", spec.decay_of(parameter)}};
  if (spec.kind == "sgd") attributes.set("momentum", spec.momentum);
  if (spec.kind == "rmsprop") attributes.set("decay", spec.decay);
  if (spec.kind == "adam" || spec.kind == "adamw" || spec.kind == "lazy_adam") {
    attributes.set("beta1", spec.beta1);
    attributes.set("beta2", spec.beta2);
  }
  if (spec.kind == "adamw") attributes.set("decoupled", true);
  if (spec.kind != "sgd") attributes.set("epsilon", spec.epsilon);
  return attributes;
}

// A parameter's gradient: dense, or only the touched rows.
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
  const bool clipped = graph.node(graph.value(gradient.value).producer).op == &clip_op();
  const std::string name =
      graph.value(parameter).name + (clipped ? ".dense_clipped_gradient" : ".dense_gradient");
  if (const ValueId there = graph.find(name); there != none) return there;
  const std::array inputs{gradient.value, gradient.touched};
  const std::int64_t rows = graph.value(parameter).type.shape.front();
  return graph.node(graph.add_node(dense_rows_op(), name, inputs, {{"rows", rows}})).outputs[0];
}

// Replaces all gradients by their means over the ranks.
void average(Graph& graph, const BucketLimits& limits, const std::vector<ValueId>& parameters,
             std::vector<Gradient>& gradients) {
  std::vector<ValueId> values;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (gradients[i].touched != none)
      throw GraphError(fmt::format("graph '{}': the gradient of {} is row-sparse and has no mean over ranks",
                                   graph.name(), graph.value(parameters[i]).name));
    values.push_back(gradients[i].value);
  }
  const std::vector<ValueId> means = add_all_reduce(graph, values, limits);
  for (std::size_t i = 0; i < gradients.size(); ++i) gradients[i].value = means[i];
}

// Scales all gradients down to the norm `limit`. The norm of a row-sparse gradient is that of its values, since
// each row occurs once, so it stays row-sparse.
void clip(Graph& graph, double limit, const std::vector<ValueId>& parameters,
          std::vector<Gradient>& gradients) {
  std::vector<ValueId> all;
  for (const Gradient& gradient : gradients) all.push_back(gradient.value);
  const ValueId norm = graph.node(graph.add_node(global_norm_op(), "gradient_norm", all)).outputs[0];
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const std::string name = graph.value(parameters[i]).name + ".clipped_gradient";
    const std::array inputs{gradients[i].value, norm};
    gradients[i].value = graph.node(graph.add_node(clip_op(), name, inputs, {{"limit", limit}})).outputs[0];
  }
}

// The op that updates a parameter with such a gradient: for a dense gradient lazy_adam becomes adam, and all
// other optimizers need dense gradients.
const Op& optimizer_op(const OptimizerSpec& spec, const Gradient& gradient) {
  if (spec.kind == "adamw") return adam_op();
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
  const Graph& training = program.graph(Task::train);
  Graph graph = with_drawn_masks(training);
  std::vector<std::pair<ValueId, ValueId>> given;
  for (const auto& [output, name] : program.cotangents)
    given.emplace_back(graph.output(output), graph.find(name));
  std::vector<ValueId> inputs;
  for (const ValueId id : differentiated_inputs(program))
    inputs.push_back(graph.find(training.value(id).name));
  const std::vector<ValueId> gradients = differentiate(graph, given, inputs);
  for (std::size_t i = 0; i < inputs.size(); ++i)
    graph.add_output("gradient/" + graph.value(inputs[i]).name, gradients[i]);
  return apply_precision(graph.pruned(), precision);
}

}  // namespace

Graph training_step(const Program& program, const TrainingStepOptions& options) {
  if (program.is_op()) return op_step(program, options.precision);
  const Graph& training = program.graph(Task::train);
  const OptimizerSpec& optimizer = program.optimizer.value();
  check_optimizer(optimizer);
  Graph graph = with_drawn_masks(training);
  const ValueId loss = graph.output("loss");
  const std::vector<bool> reaching = ancestors(graph, {loss});
  std::vector<ValueId> parameters;
  for (const ValueId id : graph.with_role(Role::parameter)) {
    if (reaching[static_cast<std::size_t>(id)]) parameters.push_back(id);
  }
  std::vector<Gradient> gradients;
  for (const ValueId value : differentiate(graph, loss, parameters))
    gradients.push_back(gradient_of(graph, value));
  if (options.gradients_as_outputs) {
    for (std::size_t i = 0; i < parameters.size(); ++i)
      graph.add_output("gradient/" + graph.value(parameters[i]).name,
                       dense(graph, gradients[i], parameters[i]));
  }
  if (options.mean_over_ranks) average(graph, *options.mean_over_ranks, parameters, gradients);
  if (optimizer.clip_norm > 0) clip(graph, optimizer.clip_norm, parameters, gradients);
  const ValueId drawn_by = graph.find("schedule");
  const ValueId schedule =
      drawn_by != none ? drawn_by : graph.add_value("schedule", {DType::f32, {2}}, Role::schedule);
  for (std::size_t i = 0; i < parameters.size(); ++i)
    add_optimizer(graph, optimizer, schedule, parameters[i], gradients[i]);
  if (!options.network_outputs) {
    for (const Graph::Output& output : training.outputs())
      if (output.name != "loss") graph.remove_output(output.name);
  }
  const Graph step =
      apply_precision(with_recomputation(graph.pruned(), training, program.segments), options.precision);
  return options.mean_over_ranks ? with_overlap(step) : step;
}

Graph inference_step(const Program& program, const Precision& precision) {
  return apply_precision(with_drawn_masks(program.inference).pruned(), precision);
}

Graph prefill_step(const Program& program, const Precision& precision) {
  return apply_precision(program.decoding.value().prefill.pruned(), precision);
}

Graph token_step(const Program& program, const Precision& precision) {
  return apply_precision(program.decoding.value().step.pruned(), precision);
}

}  // namespace assay
