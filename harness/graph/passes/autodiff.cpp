#include "harness/graph/passes/autodiff.hpp"

#include <fmt/format.h>

#include "harness/core/error.hpp"
#include "harness/graph/builder.hpp"
#include "harness/graph/op.hpp"
#include "harness/graph/ops/registry.hpp"
#include "harness/graph/passes/walk.hpp"

namespace assay {
namespace {

// varies[v]: v is one of `sources` or computed from one.
std::vector<bool> descendants(const Graph& graph, const std::vector<ValueId>& sources) {
  std::vector<bool> varies(graph.values().size(), false);
  for (const ValueId id : sources) varies[static_cast<std::size_t>(id)] = true;
  for (const Node& node : graph.nodes()) {
    bool any = false;
    for (const ValueId id : node.inputs) any = any || (id != none && varies[static_cast<std::size_t>(id)]);
    if (!any) continue;
    for (const ValueId id : node.outputs) {
      if (id != none) varies[static_cast<std::size_t>(id)] = true;
    }
  }
  return varies;
}

class Differentiation {
 public:
  Differentiation(Graph& graph, const std::vector<std::pair<ValueId, ValueId>>& given,
                  const std::vector<ValueId>& with_respect_to)
      : graph_(graph),
        builder_(graph),
        varies_(descendants(graph, with_respect_to)),
        gradients_(graph.values().size(), none),
        sums_(graph.values().size(), 0) {
    for (const auto& [value, gradient] : given) {
      if (graph.value(value).type != graph.value(gradient).type) {
        throw GraphError(
            fmt::format("graph '{}': the type of the gradient '{}' {} differs from that of '{}' {}",
                        graph.name(), graph.value(gradient).name, to_string(graph.value(gradient).type),
                        graph.value(value).name, to_string(graph.value(value).type)));
      }
      gradients_.at(index(value)) = gradient;
    }
    for (auto id = static_cast<NodeId>(graph.nodes().size()); id-- > 0;) visit(graph.node(id));
  }

  ValueId of(ValueId id) const { return gradients_[index(id)]; }

 private:
  bool varies(ValueId id) const { return id != none && varies_[index(id)]; }

  // Takes a copy of the node, because adding nodes moves the existing ones.
  void visit(Node node) {
    std::vector<ValueId> of_outputs;
    bool reaches_loss = false;
    for (const ValueId id : node.outputs) {
      of_outputs.push_back(id == none ? none : gradients_[index(id)]);
      reaches_loss = reaches_loss || of_outputs.back() != none;
    }
    bool wanted = false;
    for (const ValueId id : node.inputs) wanted = wanted || varies(id);
    if (!reaches_loss || !wanted) return;
    const std::vector<ValueId> of_inputs = node.op->gradient(builder_, node, of_outputs);
    for (std::size_t i = 0; i < of_inputs.size(); ++i) {
      if (varies(node.inputs[i]) && of_inputs[i] != none) accumulate(node.inputs[i], of_inputs[i]);
    }
  }

  void accumulate(ValueId id, ValueId gradient) {
    ValueId& total = gradients_[index(id)];
    if (total == none) {
      total = gradient;
      return;
    }
    for (const ValueId part : {total, gradient}) {
      const NodeId producer = graph_.value(part).producer;  // none: a gradient that was given
      if (producer == none || graph_.node(producer).op != &embedding_row_gradient_op()) continue;
      throw GraphError(
          fmt::format("graph '{}': '{}' is used more than once, but row-sparse gradients cannot be added: "
                      "build its embedding with dense gradients",
                      graph_.name(), graph_.value(id).name));
    }
    const int count = ++sums_[index(id)];
    total = builder_.add(
        total, gradient,
        fmt::format("{}.gradient_sum{}", graph_.value(id).name, count > 1 ? std::to_string(count) : ""));
  }

  Graph& graph_;
  GraphBuilder builder_;
  std::vector<bool> varies_;
  std::vector<ValueId> gradients_;  // of the values that existed before
  std::vector<int> sums_;
};

}  // namespace

std::vector<ValueId> differentiate(Graph& graph, ValueId loss, const std::vector<ValueId>& with_respect_to) {
  const TensorType type = graph.value(loss).type;
  if (type.elements() != 1 || !is_floating(type.dtype)) {
    throw GraphError(fmt::format("graph '{}': the loss '{}' {} is not a floating-point scalar", graph.name(),
                                 graph.value(loss).name, to_string(type)));
  }
  GraphBuilder builder(graph);
  const ValueId one = builder.apply(
      "constant", {},
      {{"value", 1.0}, {"shape", type.shape}, {"dtype", std::string(to_string(type.dtype))}})[0];
  return differentiate(graph, {{loss, one}}, with_respect_to);
}

std::vector<ValueId> differentiate(Graph& graph, const std::vector<std::pair<ValueId, ValueId>>& given,
                                   const std::vector<ValueId>& with_respect_to) {
  const Differentiation differentiation(graph, given, with_respect_to);
  std::vector<ValueId> gradients;
  for (const ValueId id : with_respect_to) {
    gradients.push_back(differentiation.of(id));
    if (gradients.back() == none) {
      throw GraphError(fmt::format("graph '{}': '{}' does not reach {}", graph.name(), graph.value(id).name,
                                   given.size() == 1
                                       ? fmt::format("the loss '{}'", graph.value(given[0].first).name)
                                       : "the given values"));
    }
  }
  return gradients;
}

}  // namespace assay
