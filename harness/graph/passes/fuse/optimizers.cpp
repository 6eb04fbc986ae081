#include <algorithm>

#include "harness/graph/op.hpp"
#include "harness/graph/ops/op_list.hpp"
#include "harness/graph/passes/fuse/passes.hpp"
#include "harness/graph/passes/fuse/rewrite.hpp"

namespace assay {

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

}  // namespace assay
