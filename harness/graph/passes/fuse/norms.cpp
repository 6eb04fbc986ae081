#include <algorithm>

#include "harness/graph/op.hpp"
#include "harness/graph/ops/op_list.hpp"
#include "harness/graph/passes/fuse/passes.hpp"
#include "harness/graph/passes/fuse/rewrite.hpp"

namespace assay {
namespace {

// Operands and results of the two ops.
constexpr std::size_t norm_bias = 2, norm_residual = 5;
constexpr std::size_t gradient_dy = 4, gradient_bias = 5, gradient_activated = 6, gradient_addend = 7;
constexpr std::size_t result_dx_sum = 3, result_dy_total = 4;

const Node* producer(const Graph& graph, ValueId value, const Op& op) {
  const NodeId id = graph.value(value).producer;
  return id != none && graph.node(id).op == &op && graph.node(id).outputs[0] == value ? &graph.node(id)
                                                                                      : nullptr;
}

// The bias of the batch norm of `x` whose ReLU gave `y`; `none` where y is another's, or more was added to
// it.
ValueId bias_behind(const Graph& graph, ValueId y, ValueId x) {
  const Node* norm = producer(graph, y, batch_norm_op());
  const bool alone = norm != nullptr && norm->inputs[0] == x && norm->inputs[norm_residual] == none;
  return alone && norm->attributes.has("activation") ? norm->inputs[norm_bias] : none;
}

// `relu` is the ReLU's gradient that `id`, a batch norm's, reads as dy.
void take_relu(Rewrite& rewrite, NodeId id, NodeId relu_id) {
  const Graph& graph = rewrite.graph();
  const Node& relu = graph.node(relu_id);
  const ValueId dy = relu.outputs[0], y = relu.inputs[0], before = relu.inputs[1];
  const auto later = [id](NodeId reader) { return reader >= id; };
  if (rewrite.visible(dy) || !std::ranges::all_of(rewrite.readers(dy), later)) return;
  Node& node = rewrite.node(id);
  if (std::ranges::count(node.inputs, dy) != 1) return;
  const bool shared = !rewrite.only_read_by(dy, id);
  const ValueId bias = bias_behind(graph, y, node.inputs[0]);
  node.inputs[bias == none ? gradient_activated : gradient_bias] = bias == none ? y : bias;
  node.inputs[gradient_dy] = before;
  rewrite.drop(relu_id);
  if (shared) node.outputs[result_dy_total] = dy;
  const Node* sum = producer(graph, before, add_op());
  if (sum == nullptr || sum->attributes.has("activation") || !rewrite.only_read_by(before, relu_id)) return;
  node.inputs[gradient_dy] = sum->inputs[0];
  node.inputs[gradient_addend] = sum->inputs[1];
  rewrite.drop(graph.value(before).producer);
}

// Of the convolution whose output is normalised: it has dx for its own dy.
void take_bias_gradient(Rewrite& rewrite, NodeId id) {
  Node& node = rewrite.node(id);
  for (const NodeId reader : rewrite.readers(node.outputs[0])) {
    Node& weight = rewrite.node(reader);
    if (weight.op != &convolution_weight_gradient_op() || weight.inputs[1] != node.outputs[0]) continue;
    if (weight.outputs[1] == none || node.outputs[result_dx_sum] != none) continue;
    node.outputs[result_dx_sum] = weight.outputs[1];
    weight.outputs[1] = none;
  }
}

}  // namespace

Graph fuse_norm_residuals(const Graph& graph) {
  Rewrite rewrite(graph);
  for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes().size()); ++id) {
    const Node& add = graph.node(id);
    if (add.op != &add_op()) continue;
    for (const std::size_t i : {1U, 0U}) {
      const ValueId y = add.inputs[i], other = add.inputs[1 - i];
      if (producer(graph, y, batch_norm_op()) == nullptr || !rewrite.only_read_by(y, id)) continue;
      const NodeId norm = graph.value(y).producer;
      Node& node = rewrite.node(norm);
      if (node.attributes.has("activation") || node.inputs[norm_residual] != none) continue;
      if (graph.value(other).producer >= norm) continue;
      node.inputs[norm_residual] = other;
      if (add.attributes.has("activation")) node.attributes.set("activation", std::string("relu"));
      rewrite.replace(id, add.outputs[0], y);
      break;
    }
  }
  return rewrite.result();
}

Graph fuse_norm_gradients(const Graph& graph) {
  Rewrite rewrite(graph);
  for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes().size()); ++id) {
    if (graph.node(id).op != &batch_norm_gradient_op()) continue;
    const NodeId relu = graph.value(graph.node(id).inputs[gradient_dy]).producer;
    if (relu != none && graph.node(relu).op == &relu_gradient_op() && !rewrite.dropped(relu))
      take_relu(rewrite, id, relu);
    take_bias_gradient(rewrite, id);
  }
  return rewrite.result();
}

}  // namespace assay
