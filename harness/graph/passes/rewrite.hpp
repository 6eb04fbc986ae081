// How a fusion writes a graph anew.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "harness/graph/graph.hpp"

namespace assay {

// A copy of a graph in which nodes are changed or left out and values stand for others. Looks at the graph as
// it was; borrows it.
class Rewrite {
 public:
  explicit Rewrite(const Graph& graph);

  const Graph& graph() const { return graph_; }
  // Nothing but `reader` looks at the value.
  bool only_read_by(ValueId value, NodeId reader) const;
  // An output of the graph, or the new value of a persistent one.
  bool visible(ValueId value) const { return visible_[static_cast<std::size_t>(value)]; }
  const std::vector<NodeId>& readers(ValueId value) const {
    return readers_[static_cast<std::size_t>(value)];
  }
  // To be changed. An output that another node gave before may be put where this one has none: the values
  // that are computed from it must come later, and the other node must give it up.
  Node& node(NodeId id) { return nodes_[static_cast<std::size_t>(id)]; }

  // Leaves the node out: nothing may read its results any more.
  void drop(NodeId id) { dropped_[static_cast<std::size_t>(id)] = true; }
  bool dropped(NodeId id) const { return dropped_[static_cast<std::size_t>(id)]; }
  // Leaves the node out; `value`, its only result, is `by` from now on.
  void replace(NodeId id, ValueId value, ValueId by);
  // One node, behind all others, for the groups of these.
  void merge(const std::vector<NodeId>& nodes);

  Graph result() const;

 private:
  // The value that stands for this one; itself where none does.
  ValueId current(ValueId id) const;

  const Graph& graph_;
  std::vector<std::vector<NodeId>> readers_;
  std::vector<Node> nodes_;
  std::vector<bool> dropped_;
  std::vector<ValueId> stands_for_;
  std::vector<bool> visible_;
  std::vector<std::vector<NodeId>> merged_;
};

}  // namespace assay
