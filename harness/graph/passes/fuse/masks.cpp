#include <algorithm>

#include "harness/graph/op.hpp"
#include "harness/graph/ops/op_list.hpp"
#include "harness/graph/passes/fuse/passes.hpp"
#include "harness/graph/passes/fuse/rewrite.hpp"

namespace assay {
namespace {

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

}  // namespace

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
    if (mask < 0 || node.outputs[0] != dx || node.inputs[index(mask)] != none) continue;
    if (!ops.contains(std::string(node.op->name()))) continue;
    const ValueId y = seen_as(rewrite, gradient.inputs[0], dx, producer);
    if (y == none) continue;
    node.inputs[index(mask)] = y;
    rewrite.replace(id, gradient.outputs[0], dy);
  }
  return rewrite.result();
}

}  // namespace assay
