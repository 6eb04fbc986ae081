#include "harness/graph/fuse.hpp"

#include <algorithm>
#include <numeric>

#include "harness/graph/op.hpp"
#include "harness/graph/ops/op_list.hpp"
#include "harness/graph/walk.hpp"

namespace assay {
namespace {

std::size_t at(std::int32_t id) { return static_cast<std::size_t>(id); }

// A copy of a graph in which nodes are changed or left out and values stand for others.
class Rewrite {
 public:
  explicit Rewrite(const Graph& graph)
      : graph_(graph),
        readers_(consumers(graph)),
        nodes_(graph.nodes().begin(), graph.nodes().end()),
        dropped_(graph.nodes().size(), false),
        stands_for_(graph.values().size()),
        visible_(graph.values().size(), false) {
    std::iota(stands_for_.begin(), stands_for_.end(), 0);
    for (const Graph::Output& output : graph.outputs()) visible_[at(output.value)] = true;
    for (const Update& update : graph.updates()) visible_[at(update.source)] = true;
  }

  const Graph& graph() const { return graph_; }
  // Nothing but `reader` looks at the value.
  bool only_read_by(ValueId value, NodeId reader) const {
    return !visible_[at(value)] && readers_[at(value)] == std::vector<NodeId>{reader};
  }
  const std::vector<NodeId>& readers(ValueId value) const { return readers_[at(value)]; }
  Node& node(NodeId id) { return nodes_[at(id)]; }

  // Leaves the node out; `value`, its only result, is `by` from now on.
  void replace(NodeId id, ValueId value, ValueId by) {
    dropped_[at(id)] = true;
    stands_for_[at(value)] = by;
  }
  // One node, behind all others, for the groups of these.
  void merge(const std::vector<NodeId>& nodes) {
    for (const NodeId id : nodes) dropped_[at(id)] = true;
    merged_.push_back(nodes);
  }

  Graph result() {
    Graph copy(graph_.name());
    moved_.assign(graph_.values().size(), none);
    const auto copy_value = [&](ValueId id) {
      const Value& value = graph_.value(id);
      moved_[at(id)] = copy.add_value(value.name, value.type, value.role, value.initializer);
    };
    const auto copy_node = [&](NodeId id) {
      if (!dropped_[at(id)]) add(copy, nodes_[at(id)]);
    };
    walk(graph_, copy_value, copy_node);
    for (const std::vector<NodeId>& nodes : merged_) {
      Node all = nodes_[at(nodes.front())];
      all.name = free_name(copy, all.op->name());
      for (std::size_t i = 1; i < nodes.size(); ++i) {
        const Node& next = nodes_[at(nodes[i])];
        all.inputs.insert(all.inputs.end(), next.inputs.end() - all.op->repeats(), next.inputs.end());
        all.outputs.insert(all.outputs.end(), next.outputs.begin(), next.outputs.end());
      }
      add(copy, all);
    }
    for (const Graph::Output& output : graph_.outputs()) copy.add_output(output.name, moved(output.value));
    for (const Update& update : graph_.updates()) copy.add_update(moved(update.target), moved(update.source));
    return copy;
  }

 private:
  ValueId moved(ValueId id) const {
    if (id == none) return none;
    while (stands_for_[at(id)] != id) id = stands_for_[at(id)];
    return moved_[at(id)];
  }

  void add(Graph& copy, const Node& node) {
    std::vector<ValueId> inputs;
    for (const ValueId id : node.inputs) inputs.push_back(moved(id));
    std::vector<bool> wanted;
    for (const ValueId id : node.outputs) wanted.push_back(id != none);
    const Node& added = copy.node(copy.add_node(*node.op, node.name, inputs, node.attributes, wanted));
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i] != none) moved_[at(node.outputs[i])] = added.outputs[i];
    }
  }

  static std::string free_name(const Graph& graph, std::string_view stem) {
    std::string name(stem);
    for (int i = 2; graph.find(name) != none || graph.find_node(name) != none; ++i) {
      name = std::string(stem) + "_" + std::to_string(i);
    }
    return name;
  }

  const Graph& graph_;
  std::vector<std::vector<NodeId>> readers_;
  std::vector<Node> nodes_;
  std::vector<bool> dropped_;
  std::vector<ValueId> stands_for_;
  std::vector<bool> visible_;
  std::vector<std::vector<NodeId>> merged_;
  std::vector<ValueId> moved_;
};

Graph fuse_activations(const Graph& graph, const std::set<std::string>& ops) {
  Rewrite rewrite(graph);
  for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes().size()); ++id) {
    const Node& relu = graph.node(id);
    if (relu.op != &relu_op()) continue;
    const ValueId x = relu.inputs[0];
    const NodeId producer = graph.value(x).producer;
    if (producer == none || !rewrite.only_read_by(x, id)) continue;
    Node& node = rewrite.node(producer);
    if (node.outputs[0] != x || node.attributes.has("activation") ||
        !ops.contains(std::string(node.op->name())))
      continue;
    node.attributes.set("activation", std::string("relu"));
    rewrite.replace(id, relu.outputs[0], x);
  }
  return rewrite.result();
}

// The operand "mask" of a gradient op; -1 for an op without.
int mask_operand(const Op& op) {
  const std::vector<Operand> operands = op.operands();
  const auto mask = std::ranges::find(operands, "mask", &Operand::name);
  return mask == operands.end() ? -1 : static_cast<int>(mask - operands.begin());
}

// `y` itself, or the view of it that has the type of `like` and is there before node `before`; `none` without
// one.
ValueId seen_as(const Rewrite& rewrite, ValueId y, ValueId like, NodeId before) {
  const Graph& graph = rewrite.graph();
  const auto fits = [&](ValueId id) {
    return graph.value(id).type == graph.value(like).type && graph.value(id).producer < before;
  };
  if (fits(y)) return y;
  for (const NodeId reader : rewrite.readers(y)) {
    const Node& node = graph.node(reader);
    if (node.op->view() && fits(node.outputs[0])) return node.outputs[0];
  }
  return none;
}

Graph fuse_masks(const Graph& graph, const std::set<std::string>& ops) {
  Rewrite rewrite(graph);
  for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes().size()); ++id) {
    const Node& gradient = graph.node(id);
    if (gradient.op != &relu_gradient_op()) continue;
    const ValueId dy = gradient.inputs[1];
    ValueId dx = dy;  // of the op that gets the mask
    NodeId reader = id;
    NodeId producer = graph.value(dx).producer;
    if (producer != none && graph.node(producer).op->view() && rewrite.only_read_by(dx, reader)) {
      reader = producer;
      dx = graph.node(producer).inputs[0];
      producer = graph.value(dx).producer;
    }
    if (producer == none || !rewrite.only_read_by(dx, reader)) continue;
    Node& node = rewrite.node(producer);
    const int mask = mask_operand(*node.op);
    if (mask < 0 || node.outputs[0] != dx || node.inputs[at(mask)] != none) continue;
    if (!ops.contains(std::string(node.op->name()))) continue;
    const ValueId y = seen_as(rewrite, gradient.inputs[0], dx, producer);
    if (y == none) continue;
    node.inputs[at(mask)] = y;
    rewrite.replace(id, gradient.outputs[0], dy);
  }
  return rewrite.result();
}

Graph group_optimizers(const Graph& graph) {
  Rewrite rewrite(graph);
  std::vector<std::vector<NodeId>> groups;
  for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes().size()); ++id) {
    const Node& node = graph.node(id);
    if (node.op->repeats() == 0 || !node.op->results_repeat()) continue;
    const auto is_read = [&](ValueId output) { return output != none && !rewrite.readers(output).empty(); };
    if (std::ranges::any_of(node.outputs, is_read)) continue;
    const auto alike = [&](const std::vector<NodeId>& group) {
      const Node& first = graph.node(group.front());
      return first.op == node.op && first.attributes == node.attributes && first.inputs[0] == node.inputs[0];
    };
    const auto group = std::ranges::find_if(groups, alike);
    if (group == groups.end()) {
      groups.push_back({id});
    } else {
      group->push_back(id);
    }
  }
  for (const std::vector<NodeId>& group : groups) {
    if (group.size() > 1) rewrite.merge(group);
  }
  return rewrite.result();
}

}  // namespace

Graph fuse(const Graph& graph, const FusionRules& rules) {
  Graph fused = fuse_masks(fuse_activations(graph, rules.activation), rules.mask);
  return rules.grouped_optimizer ? group_optimizers(fused) : fused;
}

}  // namespace assay
