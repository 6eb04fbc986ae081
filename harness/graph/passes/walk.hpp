// Shared by the passes over a graph: its items in order, and the items that a value needs.
#pragma once

#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/graph/graph.hpp"

namespace assay {

// Calls on_value(ValueId) for feeds and persistent values and on_node(NodeId) for nodes, in an order in which
// a copy with the same order of values can be built.
template <typename OnValue, typename OnNode>
void walk(const Graph& graph, OnValue&& on_value, OnNode&& on_node) {
  ValueId next = 0;
  const auto count = static_cast<ValueId>(graph.values().size());
  const auto values_before = [&](ValueId end) {
    for (; next < end; ++next) {
      if (graph.value(next).producer == none) on_value(next);
    }
  };
  for (NodeId node = 0; node < static_cast<NodeId>(graph.nodes().size()); ++node) {
    for (const ValueId output : graph.node(node).outputs) {
      if (output == none) continue;
      values_before(output);
      break;
    }
    on_node(node);
  }
  values_before(count);
}

// needed[v]: v is one of `roots` or some root is computed from it.
std::vector<bool> ancestors(const Graph& graph, const std::vector<ValueId>& roots);

// Whether a node of that op reads the value as its operand with that number.
bool is_operand(const Graph& graph, ValueId id, std::string_view op, std::size_t number);

// The nodes that read each value; a node that reads it twice is listed twice.
std::vector<std::vector<NodeId>> consumers(const Graph& graph);

// A copy of a graph that a pass makes value by value and node by node, with changes to some of them. Borrows
// the original.
class GraphCopy {
 public:
  // added: how many values the copy may have that the original does not; their ids follow those of the original.
  explicit GraphCopy(const Graph& from, std::size_t added = 0);

  // The unfinished copy: a pass may add its own values and nodes.
  Graph& graph() { return to_; }
  // The copy of a value; `none` for `none`.
  ValueId at(ValueId id) const { return id == none ? none : copies_.at(index(id)); }

  // Makes a value of the copy, which the pass added itself, the copy of this one.
  void set(ValueId id, ValueId copy) { copies_.at(index(id)) = copy; }

  // Copies a feed or a persistent value, unchanged or with another type.
  void add_value(ValueId id) { add_value(id, from_.value(id).type); }
  void add_value(ValueId id, TensorType type);
  // Copies a node of the original, which a pass may have changed; leaves out an output of `none`. `inputs`
  // are values of the copy; by default the node reads the copies of its operands.
  void add_node(const Node& node);
  void add_node(const Node& node, std::span<const ValueId> inputs);
  void add_outputs();
  void add_updates();

  // The finished copy.
  Graph take() { return std::move(to_); }

 private:
  const Graph& from_;
  Graph to_;
  std::vector<ValueId> copies_;
};

}  // namespace assay
