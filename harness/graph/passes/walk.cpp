#include "harness/graph/passes/walk.hpp"

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

std::vector<std::vector<NodeId>> consumers(const Graph& graph) {
  std::vector<std::vector<NodeId>> readers(graph.values().size());
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    for (const ValueId id : graph.nodes()[i].inputs) {
      if (id != none) readers[static_cast<std::size_t>(id)].push_back(static_cast<NodeId>(i));
    }
  }
  return readers;
}

}  // namespace assay
