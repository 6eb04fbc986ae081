#include "harness/graph/passes/rewrite.hpp"

#include <numeric>

#include "harness/graph/op.hpp"
#include "harness/graph/passes/walk.hpp"

namespace assay {

std::string free_name(const Graph& graph, std::string_view stem) {
  std::string name(stem);
  for (int i = 2; graph.find(name) != none || graph.find_node(name) != none; ++i) {
    name = std::string(stem) + "_" + std::to_string(i);
  }
  return name;
}

Rewrite::Rewrite(const Graph& graph)
    : graph_(graph),
      readers_(consumers(graph)),
      nodes_(graph.nodes().begin(), graph.nodes().end()),
      dropped_(graph.nodes().size(), false),
      inserted_(graph.nodes().size()),
      replaced_by_(graph.values().size()),
      visible_(graph.values().size(), false) {
  std::iota(replaced_by_.begin(), replaced_by_.end(), 0);
  for (const Graph::Output& output : graph.outputs()) visible_[index(output.value)] = true;
  for (const Update& update : graph.updates()) visible_[index(update.source)] = true;
}

bool Rewrite::only_read_by(ValueId value, NodeId reader) const {
  return !visible_[index(value)] && readers_[index(value)] == std::vector<NodeId>{reader};
}

ValueId Rewrite::fresh() {
  replaced_by_.push_back(static_cast<ValueId>(replaced_by_.size()));
  return replaced_by_.back();
}

void Rewrite::replace(NodeId id, ValueId value, ValueId by) {
  dropped_[index(id)] = true;
  replace(value, by);
}

void Rewrite::merge(const std::vector<NodeId>& nodes) {
  for (const NodeId id : nodes) dropped_[index(id)] = true;
  merged_.push_back(nodes);
}

Graph Rewrite::result() const {
  GraphCopy copy(graph_, replaced_by_.size() - graph_.values().size());
  const auto copy_node = [&](const Node& node) {
    std::vector<ValueId> inputs;
    for (const ValueId id : node.inputs) inputs.push_back(copy.at(current(id)));
    copy.add_node(node, inputs);
  };
  walk(
      graph_, [&](ValueId id) { copy.add_value(id); },
      [&](NodeId id) {
        if (!dropped_[index(id)]) copy_node(nodes_[index(id)]);
        for (const Node& node : inserted_[index(id)]) copy_node(node);
      });
  for (const std::vector<NodeId>& nodes : merged_) {
    Node all = nodes_[index(nodes.front())];
    all.name = free_name(copy.graph(), all.op->name());
    for (std::size_t i = 1; i < nodes.size(); ++i) {
      const Node& next = nodes_[index(nodes[i])];
      all.inputs.insert(all.inputs.end(), next.inputs.end() - all.op->repeats(), next.inputs.end());
      all.outputs.insert(all.outputs.end(), next.outputs.begin(), next.outputs.end());
    }
    copy_node(all);
  }
  for (const Graph::Output& output : graph_.outputs())
    copy.graph().add_output(output.name, copy.at(current(output.value)));
  for (const Update& update : graph_.updates())
    copy.graph().add_update(copy.at(current(update.target)), copy.at(current(update.source)));
  return copy.take();
}

ValueId Rewrite::current(ValueId id) const {
  while (id != none && replaced_by_[index(id)] != id) id = replaced_by_[index(id)];
  return id;
}

}  // namespace assay
