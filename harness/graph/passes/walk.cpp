#include "harness/graph/passes/walk.hpp"

#include <algorithm>

#include "harness/graph/op.hpp"

namespace assay {

std::vector<bool> ancestors(const Graph& graph, const std::vector<ValueId>& roots) {
  std::vector<bool> needed(graph.values().size(), false);
  for (const ValueId root : roots) needed[static_cast<std::size_t>(root)] = true;
  for (std::size_t i = graph.nodes().size(); i-- > 0;) {
    const Node& node = graph.nodes()[i];
    bool wanted = false;
    for (const ValueId id : node.outputs)
      wanted = wanted || (id != none && needed[static_cast<std::size_t>(id)]);
    if (!wanted) continue;
    for (const ValueId id : node.inputs) {
      if (id != none) needed[static_cast<std::size_t>(id)] = true;
    }
  }
  return needed;
}

bool is_operand(const Graph& graph, ValueId id, std::string_view op, std::size_t number) {
  return std::ranges::any_of(graph.nodes(), [&](const Node& node) {
    return node.op->name() == op && number < node.inputs.size() && node.inputs[number] == id;
  });
}

std::vector<std::vector<NodeId>> consumers(const Graph& graph) {
  std::vector<std::vector<NodeId>> readers(graph.values().size());
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    for (const ValueId id : graph.nodes()[i].inputs) {
      if (id != none) readers[static_cast<std::size_t>(id)].push_back(static_cast<NodeId>(i));
    }
  }
  return readers;
}

GraphCopy::GraphCopy(const Graph& from, std::size_t added)
    : from_(from), to_(from.name()), copies_(from.values().size() + added, none) {}

void GraphCopy::add_value(ValueId id, TensorType type) {
  const Value& value = from_.value(id);
  copies_[index(id)] = to_.add_value(value.name, std::move(type), value.role, value.initializer);
}

void GraphCopy::add_node(const Node& node) {
  std::vector<ValueId> inputs;
  for (const ValueId id : node.inputs) inputs.push_back(at(id));
  add_node(node, inputs);
}

void GraphCopy::add_node(const Node& node, std::span<const ValueId> inputs) {
  std::vector<bool> wanted;
  for (const ValueId id : node.outputs) wanted.push_back(id != none);
  const Node& added = to_.node(to_.add_node(*node.op, node.name, inputs, node.attributes, std::move(wanted)));
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i] != none) copies_[index(node.outputs[i])] = added.outputs[i];
  }
}

void GraphCopy::add_outputs() {
  for (const Graph::Output& output : from_.outputs()) to_.add_output(output.name, at(output.value));
}

void GraphCopy::add_updates() {
  for (const Update& update : from_.updates()) to_.add_update(at(update.target), at(update.source));
}

}  // namespace assay
