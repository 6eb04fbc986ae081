#include "backends/cuda/primitives/ops.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "backends/cuda/library.hpp"
#include "harness/graph/broadcast.hpp"
#include "harness/graph/passes/fuse.hpp"

namespace assay::cuda::primitives {
namespace {

// Ops whose lowering in the other modes is one call of a library as well, once nothing is fused into it, or
// nothing at all (a view).
constexpr std::array shared{"all_reduce_start",
                            "all_reduce_wait",
                            "convolution_input_gradient",
                            "flatten",
                            "linear_input_gradient",
                            "lstm",
                            "lstm_gradient",
                            "matmul",
                            "reshape"};

// Ops that the libraries have no call for: plain kernels. Of softmax_cross_entropy only the choice of a row's
// label; see loss.cu. Of attention and its gradient all but the products.
constexpr std::array outside{"adam",
                             "advance",
                             "attention",
                             "attention_gradient",
                             "cache_mask",
                             "cache_write",
                             "clip",
                             "dense_rows",
                             "divide",
                             "dropout",
                             "dropout_mask",
                             "embedding",
                             "embedding_gradient",
                             "embedding_row_gradient",
                             "from_list",
                             "global_norm",
                             "layer_norm",
                             "layer_norm_gradient",
                             "lazy_adam",
                             "local_response_norm",
                             "local_response_norm_gradient",
                             "mean_pool",
                             "mean_pool_gradient",
                             "normalise",
                             "normalise_gradient",
                             "padding_mask",
                             "prelu",
                             "prelu_gradient",
                             "rms_norm",
                             "rms_norm_gradient",
                             "rmsprop",
                             "rotary",
                             "sgd",
                             "softmax_cross_entropy",
                             "softmax_cross_entropy_gradient",
                             "tokens_at"};

const OpEntry* find_in(std::span<const OpEntry> list, std::string_view op) {
  const auto entry = std::ranges::find(list, op, &OpEntry::op);
  return entry == list.end() ? nullptr : &*entry;
}

const OpEntry* find_call(std::string_view op) {
  for (const auto list : {elementwise_ops(), loss_ops(), move_ops(), norm_ops(), optimizer_ops(), pool_ops(),
                          product_ops(), reduce_ops()}) {
    if (const OpEntry* entry = find_in(list, op)) return entry;
  }
  return nullptr;
}

// Also the functions of one tensor that no call computes.
bool is_outside(std::string_view op) {
  return std::ranges::find(outside, op) != outside.end() ||
         (find_in(activation_ops(), op) != nullptr && find_call(op) == nullptr);
}

}  // namespace

const OpEntry* find_entry(std::string_view op) {
  if (const OpEntry* entry = find_call(op)) return entry;
  return std::ranges::find(shared, op) != shared.end() || is_outside(op) ? cuda::find_entry(op) : nullptr;
}

bool is_outside_of_library(const Node& node) {
  // No call compares elements, which the gradient of a maximum does.
  if (node.op->name() == "reduce_gradient") return node.attributes.get<std::string>("kind") == "max";
  return is_outside(node.op->name());
}

Graph rewritten(const Graph& graph) { return fuse(graph, {.pool_operands = true}); }

std::string reason_against(const Graph& graph, const Node& node) {
  if (is_fused(node)) {
    return fmt::format("[{}] {}: got a fused op, and mode {} runs one op after another", node.op->name(),
                       node.name, primitives_mode);
  }
  const std::string_view op = node.op->name();
  if ((op.starts_with("softplus") || op.starts_with("softsign")) &&
      graph.value(node.outputs[0]).type.elements() == 1) {
    return fmt::format("[{}] {}: cuDNN has no engine for a single element", op, node.name);
  }
  if (op == "add" || op == "subtract" || op == "multiply") {
    constexpr std::size_t most = 5;
    const auto shape_of = [&](std::size_t i) { return graph.value(node.inputs[i]).type.shape; };
    if (broadcast(shape_of(0), shape_of(1)).sizes.size() > most)
      return fmt::format("[{}] {}: cuDNN repeats a tensor along at most {} dimensions", op, node.name, most);
  }
  if (op.starts_with("max_pool") || op.starts_with("average_pool")) {
    if (std::string reason = reason_against_pool(graph, node); !reason.empty()) return reason;
  }
  return cuda::reason_against(graph, node, find_entry(op));
}

}  // namespace assay::cuda::primitives
