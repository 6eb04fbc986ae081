#include "backends/cuda/primitives/ops.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "backends/cuda/library.hpp"
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
                             "attention",
                             "attention_gradient",
                             "clip",
                             "dense_rows",
                             "dropout",
                             "dropout_mask",
                             "embedding",
                             "embedding_gradient",
                             "embedding_row_gradient",
                             "from_list",
                             "gelu",
                             "gelu_gradient",
                             "global_norm",
                             "layer_norm",
                             "layer_norm_gradient",
                             "lazy_adam",
                             "mean_pool",
                             "mean_pool_gradient",
                             "normalise",
                             "normalise_gradient",
                             "padding_mask",
                             "rms_norm",
                             "rms_norm_gradient",
                             "rmsprop",
                             "rotary",
                             "sgd",
                             "silu",
                             "silu_gradient",
                             "softmax_cross_entropy",
                             "softmax_cross_entropy_gradient"};

}  // namespace

const OpEntry* find_entry(std::string_view op) {
  for (const auto list : {elementwise_ops(), loss_ops(), move_ops(), norm_ops(), optimizer_ops(), pool_ops(),
                          product_ops(), reduce_ops()}) {
    const auto entry = std::ranges::find(list, op, &OpEntry::op);
    if (entry != list.end()) return &*entry;
  }
  const bool taken =
      std::ranges::find(shared, op) != shared.end() || std::ranges::find(outside, op) != outside.end();
  return taken ? cuda::find_entry(op) : nullptr;
}

bool is_outside_of_library(const Node& node) {
  // No call compares elements, which the gradient of a maximum does.
  if (node.op->name() == "reduce_gradient") return node.attributes.get<std::string>("kind") == "max";
  return std::ranges::find(outside, node.op->name()) != outside.end();
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
  return cuda::reason_against(graph, node, find_entry(op));
}

}  // namespace assay::cuda::primitives
