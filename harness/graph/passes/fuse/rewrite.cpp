#include "harness/graph/passes/fuse/rewrite.hpp"

#include <numeric>

#include "harness/graph/op.hpp"
#include "harness/graph/passes/walk.hpp"

namespace assay {
namespace {

std::string free_name(const Graph& graph, std::string_view stem) {
  std::string name(stem);
  for (int i = 2; graph.find(name) != none || graph.find_node(name) != none; ++i) {
    name = std::string(stem) + "_" + std::to_string(i);
  }
  return name;
}

}  // namespace

Rewrite::Rewrite(const Graph& graph)
    : graph_(graph),
      readers_(consumers(graph)),
      nodes_(graph.nodes().begin(), graph.nodes().end()),
      dropped_(graph.nodes().size(), false),
      stands_for_(graph.values().size()),
      visible_(graph.values().size(), false) {
  std::iota(stands_for_.begin(), stands_for_.end(), 0);
  for (const Graph::Output& output : graph.outputs()) visible_[index(output.value)] = true;
  for (const Update& update : graph.updates()) visible_[index(update.source)] = true;
}

bool Rewrite::only_read_by(ValueId value, NodeId reader) const {
  return !visible_[index(value)] && readers_[index(value)] == std::vector<NodeId>{reader};
}

void Rewrite::replace(NodeId id, ValueId value, ValueId by) {
  dropped_[index(id)] = true;
  stands_for_[index(value)] = by;
}

void Rewrite::merge(const std::vector<NodeId>& nodes) {
  for (const NodeId id : nodes) dropped_[index(id)] = true;
  merged_.push_back(nodes);
}

Graph Rewrite::result() {
  Graph copy(graph_.name());
  moved_.assign(graph_.values().size(), none);
  const auto copy_value = [&](ValueId id) {
    const Value& value = graph_.value(id);
    moved_[index(id)] = copy.add_value(value.name, value.type, value.role, value.initializer);
  };
  const auto copy_node = [&](NodeId id) {
    if (!dropped_[index(id)]) add(copy, nodes_[index(id)]);
  };
  walk(graph_, copy_value, copy_node);
  for (const std::vector<NodeId>& nodes : merged_) {
    Node all = nodes_[index(nodes.front())];
    all.name = free_name(copy, all.op->name());
    for (std::size_t i = 1; i < nodes.size(); ++i) {
      const Node& next = nodes_[index(nodes[i])];
      all.inputs.insert(all.inputs.end(), next.inputs.end() - all.op->repeats(), next.inputs.end());
      all.outputs.insert(all.outputs.end(), next.outputs.begin(), next.outputs.end());
    }
    add(copy, all);
  }
  for (const Graph::Output& output : graph_.outputs()) copy.add_output(output.name, moved(output.value));
  for (const Update& update : graph_.updates()) copy.add_update(moved(update.target), moved(update.source));
  return copy;
}

ValueId Rewrite::moved(ValueId id) const {
  if (id == none) return none;
  while (stands_for_[index(id)] != id) id = stands_for_[index(id)];
  return moved_[index(id)];
}

void Rewrite::add(Graph& copy, const Node& node) {
  std::vector<ValueId> inputs;
  for (const ValueId id : node.inputs) inputs.push_back(moved(id));
  std::vector<bool> wanted;
  for (const ValueId id : node.outputs) wanted.push_back(id != none);
  const Node& added = copy.node(copy.add_node(*node.op, node.name, inputs, node.attributes, wanted));
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i] != none) moved_[index(node.outputs[i])] = added.outputs[i];
  }
}

}  // namespace assay
