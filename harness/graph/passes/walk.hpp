// What the passes over a graph share: its items in order, and which of them a value needs.
#pragma once

#include <vector>

#include "harness/graph/graph.hpp"

namespace assay {

// Calls on_value(ValueId) for what is fed or persistent and on_node(NodeId) for the nodes, in an order in
// which a copy can be built that has the same order of values.
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

// The nodes that read each value; a node that reads it twice stands twice.
std::vector<std::vector<NodeId>> consumers(const Graph& graph);

}  // namespace assay
