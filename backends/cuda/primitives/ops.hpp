// Mode primitives: each op as calls of cuDNN, cuBLASLt and the CUDA runtime, as NVIDIA documents them.
#pragma once

#include <span>
#include <string>

#include "backends/cuda/lowering.hpp"

namespace assay::cuda::primitives {

std::span<const OpEntry> elementwise_ops();
std::span<const OpEntry> loss_ops();
std::span<const OpEntry> move_ops();
std::span<const OpEntry> norm_ops();
std::span<const OpEntry> optimizer_ops();
std::span<const OpEntry> pool_ops();
std::span<const OpEntry> product_ops();
std::span<const OpEntry> reduce_ops();

// Null where this mode does not have the op.
const OpEntry* find_entry(std::string_view op);
// Whether a kernel of ours computes the node, in whole or in part: the libraries have no call for it.
bool is_outside_of_library(const Node& node);

// The graph as this mode lowers it: nothing is fused, and a max_pool_gradient has the operands that cuDNN
// reads.
Graph rewritten(const Graph& graph);
// Why a node cannot be lowered; decided without a device.
std::string reason_against(const Graph& graph, const Node& node);
// The part of that about pools.
std::string reason_against_pool(const Graph& graph, const Node& node);

// Moves between the layouts of an image or a filter.
std::unique_ptr<Kernel> make_reorder(Context& context, const TensorType& type, Layout from, Layout to);

}  // namespace assay::cuda::primitives
