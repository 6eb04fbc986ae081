// Rewrites a graph for a fusion.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/graph/graph.hpp"

namespace assay {

// `stem`, or with a number after it, so that no value and no node of the graph has this name.
std::string free_name(const Graph& graph, std::string_view stem);

// A copy of a graph in which nodes are changed or dropped and values are replaced by others. Reads the graph
// as it was; borrows it.
class Rewrite {
 public:
  explicit Rewrite(const Graph& graph);

  const Graph& graph() const { return graph_; }
  // Whether `reader` is the only reader of the value.
  bool only_read_by(ValueId value, NodeId reader) const;
  // Whether the value is an output of the graph, or the new value of a persistent one.
  bool visible(ValueId value) const { return visible_[static_cast<std::size_t>(value)]; }
  const std::vector<NodeId>& readers(ValueId value) const {
    return readers_[static_cast<std::size_t>(value)];
  }
  // The node, which may be changed. An absent output may be replaced by an output of another node, if that
  // node drops the output and the values that are computed from it come later, or by a fresh value.
  Node& node(NodeId id) { return nodes_[static_cast<std::size_t>(id)]; }
  // The id of a value that the graph does not have yet.
  ValueId fresh();
  // Adds a node after node `id`: its results are fresh, or values that no other node makes any more.
  void insert_after(NodeId id, Node node) {
    inserted_[static_cast<std::size_t>(id)].push_back(std::move(node));
  }

  // Drops the node: nothing may read its results any more.
  void drop(NodeId id) { dropped_[static_cast<std::size_t>(id)] = true; }
  bool dropped(NodeId id) const { return dropped_[static_cast<std::size_t>(id)]; }
  // Drops the node and replaces `value`, its only result, by `by`.
  void replace(NodeId id, ValueId value, ValueId by);
  // Replaces a value that no node makes any more by `by`.
  void replace(ValueId value, ValueId by) { replaced_by_[static_cast<std::size_t>(value)] = by; }
  // The value that replaces this one; itself if it was not replaced.
  ValueId current(ValueId id) const;
  // Replaces these nodes by one node with their groups, after all others.
  void merge(const std::vector<NodeId>& nodes);

  Graph result() const;

 private:
  const Graph& graph_;
  std::vector<std::vector<NodeId>> readers_;
  std::vector<Node> nodes_;
  std::vector<bool> dropped_;
  std::vector<std::vector<Node>> inserted_;  // after each node
  std::vector<ValueId> replaced_by_;         // by value, with the fresh ones
  std::vector<bool> visible_;
  std::vector<std::vector<NodeId>> merged_;
};

}  // namespace assay
