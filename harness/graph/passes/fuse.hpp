// Rewrites patterns into the fused forms that a backend has kernels for. A fused graph computes the same as
// the unfused one.
#pragma once

#include <set>
#include <string>

#include "harness/graph/graph.hpp"

namespace assay {

struct FusionRules {
  // Ops whose kernels accept the attribute activation "relu": if a relu is the only reader of such an op's y,
  // it becomes the attribute. Any of "convolution", "linear", "batch_norm", "add".
  std::set<std::string> activation = {};
  // Ops whose kernels accept the attribute activation "gelu" or "gelu_tanh": if a gelu is the only reader of
  // such an op's y, which it is in inference, it becomes the attribute. "linear".
  std::set<std::string> gelu = {};
  // If an add is the only reader of a linear's y, its other value becomes the operand residual, if that value
  // exists before.
  bool linear_residual = false;
  // If an add is the only reader of the dx of a linear_input_gradient, its other value becomes the operand addend, if that
  // value exists before: the gradient that another reader of x passes back.
  bool linear_addend = false;
  // As join_projections() does.
  bool joined_projections = false;
  // If only one embedding reads the cast of a table, it reads the table itself, and its rows are cast: the
  // same bits, from the rows that are looked up instead of all.
  bool cast_after_embedding = false;
  // Gradient ops whose kernels accept the operand mask: if a relu_gradient is the only reader of such an op's
  // dx, it becomes that operand, also across the reshape of a flatten. Any of "convolution_input_gradient",
  // "linear_input_gradient", "average_pool_gradient", "max_pool_gradient".
  std::set<std::string> mask = {};
  // If an add is the only reader of a batch norm's y, its other value becomes the operand residual, with the
  // add's activation, if that value exists before. To include a ReLU after it, `activation` must have
  // "batch_norm" and "add".
  bool norm_residual = false;
  // A batch_norm_gradient includes the ReLU's gradient before it and the sum of two gradients before that. The bias of a
  // convolution that only a batch norm reads gets a gradient of zero, which no data can change.
  bool norm_gradient = false;
  // With norm_gradient: a batch norm with a ReLU saves the operand mask of its gradient.
  bool norm_mask = false;
  // The running statistics of a batch norm are updated by a running_statistics.
  bool norm_statistics = false;
  // If an add is the only reader of the dx of a layer_norm_gradient or rms_norm_gradient, its other value
  // becomes the operand addend, if that value exists before: the gradient that a residual connection passes
  // by the norm.
  bool row_norm_gradient = false;
  // All nodes of one optimizer op, or of running_statistics, with equal attributes become one node with a group of operands
  // for each tensor; these are the last nodes.
  bool grouped_updates = false;
  // A max_pool_gradient gets the operands x and y: of the max_pool whose argmax it reads.
  bool pool_operands = false;
};

// Works on a whole step, after differentiation and the precision pass. Keeps outputs, updates, and the names
// of feeds and persistent values.
Graph fuse(const Graph& graph, const FusionRules& rules);

// Whether the node computes more than its op does without fusion: an activation, the mask of one in a
// gradient, an operand that fusion adds, the sum of gradients before a batch norm, q, k and v in one value, or a joined
// copy in another type.
bool is_fused(const Node& node);

}  // namespace assay
