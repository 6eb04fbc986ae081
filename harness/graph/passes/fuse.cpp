#include "harness/graph/passes/fuse.hpp"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "harness/graph/op.hpp"
#include "harness/graph/ops/registry.hpp"
#include "harness/graph/passes/projections.hpp"
#include "harness/graph/passes/rewrite.hpp"

namespace assay {
namespace {

// The attribute activation that the node becomes; empty for every other op.
std::string activation_of(const Node& node) {
  if (node.op->name() == "relu") return "relu";
  if (node.op->name() != "gelu") return {};
  return node.attributes.get<std::string>("approximate") == "none" ? "gelu" : "gelu_tanh";
}

Graph fuse_activations(const Graph& graph, const FusionRules& rules) {
  Rewrite rewrite(graph);
  for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes().size()); ++id) {
    const Node& function = graph.node(id);
    const std::string activation = activation_of(function);
    if (activation.empty()) continue;
    const std::set<std::string>& ops = activation == "relu" ? rules.activation : rules.gelu;
    const ValueId x = function.inputs[0];
    const NodeId producer = graph.value(x).producer;
    if (producer == none || !rewrite.only_read_by(x, id)) continue;
    Node& node = rewrite.node(producer);
    if (node.outputs[0] != x || node.attributes.has("activation") ||
        !ops.contains(std::string(node.op->name())))
      continue;
    node.attributes.set("activation", activation);
    rewrite.replace(id, function.outputs[0], x);
  }
  return rewrite.result();
}

// The index of the operand "mask" of a gradient op; -1 if the op has none.
int mask_operand(const Op& op) {
  const std::vector<Operand> operands = op.operands();
  const auto mask = std::ranges::find(operands, "mask", &Operand::name);
  return mask == operands.end() ? -1 : static_cast<int>(mask - operands.begin());
}

// `y` itself, or its view that has the type of `like` and exists before node `before`; `none` without such a
// view.
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
    if (gradient.op->name() != "relu_gradient") continue;
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

// Operands and results of the two ops.
constexpr std::size_t norm_bias = 2, norm_running_mean = 3, norm_running_variance = 4, norm_residual = 5;
constexpr std::size_t norm_mean = 1, norm_inverse_std = 2, norm_new_mean = 3, norm_new_variance = 4,
                      norm_mask = 5;
constexpr std::size_t gradient_mean = 2, gradient_dy = 4, gradient_bias = 5, gradient_activated = 6,
                      gradient_addend = 7, gradient_mask = 8;
constexpr std::size_t result_dy_total = 3;
constexpr std::size_t pool_argmax = 1, pool_x = 3, pool_y = 4;

const Node* producer(const Graph& graph, ValueId value, const Op& op) {
  const NodeId id = graph.value(value).producer;
  return id != none && graph.node(id).op == &op && graph.node(id).outputs[0] == value ? &graph.node(id)
                                                                                      : nullptr;
}

// The batch norm of `x` whose own ReLU gave `y`; `none` if y belongs to another op.
NodeId norm_before(const Graph& graph, ValueId y, ValueId x) {
  const Node* norm = producer(graph, y, batch_norm_op());
  const bool fits = norm != nullptr && norm->inputs[0] == x && norm->attributes.has("activation");
  return fits ? graph.value(y).producer : none;
}

// The operand that says where a ReLU gave 0.
void add_gate(Rewrite& rewrite, Node& gradient, ValueId y, bool masks) {
  const NodeId id = norm_before(rewrite.graph(), y, gradient.inputs[0]);
  if (id != none && masks) {
    Node& norm = rewrite.node(id);
    norm.outputs.resize(norm_mask + 1, none);
    if (norm.outputs[norm_mask] == none) norm.outputs[norm_mask] = rewrite.fresh();
    gradient.inputs.resize(gradient_mask + 1, none);
    gradient.inputs[gradient_mask] = norm.outputs[norm_mask];
  } else if (id != none && rewrite.node(id).inputs[norm_residual] == none) {
    gradient.inputs[gradient_bias] = rewrite.node(id).inputs[norm_bias];
  } else {
    gradient.inputs[gradient_activated] = y;
  }
}

// `relu` is the gradient of a ReLU that `id`, the gradient of a batch norm, reads as dy.
void take_relu(Rewrite& rewrite, NodeId id, NodeId relu_id, bool masks) {
  const Graph& graph = rewrite.graph();
  const Node& relu = graph.node(relu_id);
  const ValueId dy = relu.outputs[0], y = relu.inputs[0], before = relu.inputs[1];
  const auto later = [id](NodeId reader) { return reader >= id; };
  if (rewrite.visible(dy) || !std::ranges::all_of(rewrite.readers(dy), later)) return;
  Node& node = rewrite.node(id);
  if (std::ranges::count(node.inputs, dy) != 1) return;
  const bool shared = !rewrite.only_read_by(dy, id);
  add_gate(rewrite, node, y, masks);
  node.inputs[gradient_dy] = before;
  rewrite.drop(relu_id);
  if (shared) node.outputs[result_dy_total] = dy;
  const Node* sum = producer(graph, before, find_op("add"));
  if (sum == nullptr || sum->attributes.has("activation") || !rewrite.only_read_by(before, relu_id)) return;
  const auto repeated = [&](ValueId operand) {
    return graph.value(operand).type != graph.value(before).type;
  };
  if (std::ranges::any_of(sum->inputs, repeated)) return;
  node.inputs[gradient_dy] = sum->inputs[0];
  node.inputs[gradient_addend] = sum->inputs[1];
  rewrite.drop(graph.value(before).producer);
}

// Gives the bias of a convolution that only a batch norm reads a gradient of zero, which it is whatever the data are: the norm
// subtracts the bias with the mean. zeros: those that earlier calls made.
void zero_bias_gradient(Rewrite& rewrite, NodeId id, std::vector<ValueId>& zeros) {
  const Graph& graph = rewrite.graph();
  const Node& node = graph.node(id);
  const NodeId norm = graph.value(node.inputs[gradient_mean]).producer;
  if (norm == none || graph.node(norm).op != &batch_norm_op() || graph.node(norm).inputs[0] != node.inputs[0])
    return;
  for (const NodeId reader : rewrite.readers(node.outputs[0])) {
    Node& weight = rewrite.node(reader);
    if (weight.op != &convolution_weight_gradient_op() || weight.inputs[1] != node.outputs[0]) continue;
    const ValueId gradient = std::exchange(weight.outputs[1], none);
    if (gradient == none) continue;
    const TensorType& type = graph.value(gradient).type;
    const auto known = std::ranges::find_if(zeros, [&](ValueId v) { return graph.value(v).type == type; });
    if (known != zeros.end()) {
      rewrite.replace(gradient, *known);
      continue;
    }
    zeros.push_back(gradient);
    rewrite.insert_after(
        id, {graph.value(gradient).name,
             &constant_op(),
             {{"value", 0.0}, {"shape", type.shape}, {"dtype", std::string(to_string(type.dtype))}},
             {},
             {gradient}});
  }
}

// Where only an add reads the first result of a node, its other value becomes an operand of the node, if that value
// exists before. operand_of(node, add): which operand; nothing for a node that cannot include the add.
template <typename OperandOf>
Graph fuse_sums(const Graph& graph, const OperandOf& operand_of) {
  Rewrite rewrite(graph);
  for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes().size()); ++id) {
    const Node& add = graph.node(id);
    if (add.op->name() != "add") continue;
    for (const std::size_t i : {1U, 0U}) {
      const ValueId y = add.inputs[i], other = add.inputs[1 - i];
      const NodeId producer = graph.value(y).producer;
      if (producer == none || !rewrite.only_read_by(y, id)) continue;
      Node& node = rewrite.node(producer);
      const std::optional<std::size_t> operand = operand_of(node, add);
      if (!operand || node.outputs[0] != y) continue;
      const bool exists = graph.value(rewrite.current(other)).producer < producer;
      if (!exists || graph.value(other).type != graph.value(y).type) continue;
      if (node.inputs.size() <= *operand) node.inputs.resize(*operand + 1, none);
      if (node.inputs[*operand] != none) continue;
      node.inputs[*operand] = other;
      if (add.attributes.has("activation")) node.attributes.set("activation", std::string("relu"));
      rewrite.replace(id, add.outputs[0], y);
      break;
    }
  }
  return rewrite.result();
}

using Index = std::optional<std::size_t>;

Index residual_of_norm(const Node& node, const Node&) {
  return node.op == &batch_norm_op() && !node.attributes.has("activation") ? Index(norm_residual) : Index();
}

Index residual_of_linear(const Node& node, const Node& add) {
  constexpr std::size_t residual = 3;
  const bool fits = node.op == &linear_op() && !node.attributes.has("activation");
  return fits && !add.attributes.has("activation") ? Index(residual) : Index();
}

Index addend_of_linear(const Node& node, const Node& add) {
  constexpr std::size_t mask = 2, addend = 3;
  const bool fits = node.op == &linear_input_gradient_op() && node.inputs[mask] == none;
  return fits && !add.attributes.has("activation") ? Index(addend) : Index();
}

// Of the gradient of a norm over the last dimension.
Index addend_of_row_norm(const Node& node, const Node& add) {
  if (add.attributes.has("activation")) return {};
  if (node.op == &layer_norm_gradient_op()) return 5;
  return node.op == &rms_norm_gradient_op() ? Index(4) : Index();
}

Graph cast_after_embeddings(const Graph& graph) {
  Rewrite rewrite(graph);
  for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes().size()); ++id) {
    const Node& embedding = graph.node(id);
    if (embedding.op != &embedding_op()) continue;
    const ValueId indices = embedding.inputs[0], table = embedding.inputs[1];
    if (producer(graph, table, cast_op()) == nullptr || !rewrite.only_read_by(table, id)) continue;
    const NodeId cast = graph.value(table).producer;
    if (graph.value(indices).producer >= cast) continue;
    // The two nodes change places: the value between them becomes the rows before the cast.
    Node &first = rewrite.node(cast), &second = rewrite.node(id);
    std::swap(first.op, second.op);
    std::swap(first.attributes, second.attributes);
    first.inputs.insert(first.inputs.begin(), indices);
    second.inputs = {table};
  }
  return rewrite.result();
}

Graph fuse_norm_gradients(const Graph& graph, bool masks) {
  Rewrite rewrite(graph);
  std::vector<ValueId> zeros;
  for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes().size()); ++id) {
    if (graph.node(id).op != &batch_norm_gradient_op()) continue;
    const NodeId relu = graph.value(graph.node(id).inputs[gradient_dy]).producer;
    if (relu != none && graph.node(relu).op->name() == "relu_gradient" && !rewrite.dropped(relu))
      take_relu(rewrite, id, relu, masks);
    zero_bias_gradient(rewrite, id, zeros);
  }
  return rewrite.result();
}

Graph separate_statistics(const Graph& graph) {
  Rewrite rewrite(graph);
  for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes().size()); ++id) {
    Node& norm = rewrite.node(id);
    if (norm.op != &batch_norm_op() || !norm.attributes.get<bool>("training")) continue;
    const auto all = std::span(norm.outputs).subspan(norm_mean, 4);
    if (std::ranges::count(all, none) > 0) continue;
    rewrite.insert_after(id, {norm.name + ".statistics",
                              &running_statistics_op(),
                              {{"epsilon", norm.attributes.number("epsilon")},
                               {"momentum", norm.attributes.number("momentum")}},
                              {norm.outputs[norm_mean], norm.outputs[norm_inverse_std],
                               norm.inputs[norm_running_mean], norm.inputs[norm_running_variance]},
                              {norm.outputs[norm_new_mean], norm.outputs[norm_new_variance]}});
    norm.outputs[norm_new_mean] = norm.outputs[norm_new_variance] = none;
  }
  return rewrite.result();
}

Graph group_updates(const Graph& graph) {
  Rewrite rewrite(graph);
  std::vector<std::vector<NodeId>> groups;
  for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes().size()); ++id) {
    const Node& node = graph.node(id);
    if (node.op->repeats() == 0 || !node.op->results_repeat()) continue;
    const auto is_read = [&](ValueId output) { return output != none && !rewrite.readers(output).empty(); };
    if (std::ranges::any_of(node.outputs, is_read)) continue;
    const std::size_t shared = node.op->operands().size() - index(node.op->repeats());
    const auto alike = [&](const std::vector<NodeId>& group) {
      const Node& first = graph.node(group.front());
      return first.op == node.op && first.attributes == node.attributes &&
             std::equal(first.inputs.begin(), first.inputs.begin() + static_cast<std::ptrdiff_t>(shared),
                        node.inputs.begin());
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

Graph give_pool_operands(const Graph& graph) {
  Rewrite rewrite(graph);
  for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes().size()); ++id) {
    Node& gradient = rewrite.node(id);
    if (gradient.op != &max_pool_gradient_op()) continue;
    const NodeId pool = graph.value(gradient.inputs[pool_argmax]).producer;
    if (pool == none || graph.node(pool).op != &max_pool_op()) continue;
    gradient.inputs[pool_x] = graph.node(pool).inputs[0];
    gradient.inputs[pool_y] = graph.node(pool).outputs[0];
  }
  return rewrite.result();
}

}  // namespace

Graph fuse(const Graph& graph, const FusionRules& rules) {
  Graph fused = rules.joined_projections ? join_projections(graph) : graph;
  if (rules.cast_after_embedding) fused = cast_after_embeddings(fused);
  fused = fuse_activations(fused, rules);
  if (rules.norm_residual) fused = fuse_sums(fused, residual_of_norm);
  if (rules.linear_residual) fused = fuse_sums(fused, residual_of_linear);
  if (rules.norm_gradient) fused = fuse_norm_gradients(fused, rules.norm_mask);
  if (rules.norm_statistics) fused = separate_statistics(fused);
  if (rules.row_norm_gradient) fused = fuse_sums(fused, addend_of_row_norm);
  if (rules.linear_addend) fused = fuse_sums(fused, addend_of_linear);
  fused = fuse_masks(fused, rules.mask);
  if (rules.pool_operands) fused = give_pool_operands(fused);
  return rules.grouped_updates ? group_updates(fused) : fused;
}

bool is_fused(const Node& node) {
  const std::vector<Operand> operands = node.op->operands();
  const bool pool = node.op == &max_pool_gradient_op();  // whose x and y change nothing of what it computes
  for (std::size_t i = 0; i < std::min(operands.size(), node.inputs.size()); ++i) {
    // The mask of a ReLU; that of an attention, of Kind::master, is the network's own.
    const bool mask = operands[i].optional && operands[i].name == "mask" && operands[i].kind != Kind::master;
    if (node.inputs[i] != none && (mask || (operands[i].fused && !pool))) return true;
  }
  const bool total = node.op == &batch_norm_gradient_op() && node.outputs.size() > result_dy_total &&
                     node.outputs[result_dy_total] != none;
  const bool joined = !attribute_of_joined(*node.op, node.attributes).empty();
  return node.attributes.has("activation") || joined || total;
}

}  // namespace assay
