#include "harness/graph/op.hpp"
#include "harness/graph/ops/op_list.hpp"
#include "harness/graph/passes/fuse/passes.hpp"
#include "harness/graph/passes/fuse/rewrite.hpp"

namespace assay {

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

}  // namespace assay
