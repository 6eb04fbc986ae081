// Rewrites patterns into the fused forms that a backend has kernels for. A fused graph computes what the
// unfused one does.
#pragma once

#include <set>
#include <string>

#include "harness/graph/graph.hpp"

namespace assay {

struct FusionRules {
  // Ops whose kernels take the attribute activation "relu": a relu that alone reads such an op's y becomes
  // the attribute. Of "convolution", "linear", "batch_norm", "add".
  std::set<std::string> activation = {};
  // Gradient ops whose kernels take the operand mask: a relu_gradient that alone reads such an op's dx
  // becomes that operand, also across the reshape of a flatten. Of "convolution_input_gradient",
  // "linear_input_gradient", "average_pool_gradient", "max_pool_gradient".
  std::set<std::string> mask = {};
  // An add that alone reads a batch norm's y becomes the operand residual, with the add's activation, where
  // the other value is there before. Wants "batch_norm" and "add" in `activation` to catch the ReLU behind.
  bool norm_residual = false;
  // A batch_norm_gradient takes over the ReLU's gradient in front of it, the sum of two gradients in front of
  // that, and from the convolution behind it the gradient of the bias.
  bool norm_gradient = false;
  // All nodes of one optimizer op with equal attributes become one node with a group of operands per tensor;
  // it stands last.
  bool grouped_optimizer = false;
  // A max_pool_gradient gets the operands x and y: of the max_pool whose argmax it reads.
  bool pool_operands = false;
};

// Works on a whole step, after differentiation and the precision pass. Outputs, updates, and the names of
// feeds and persistent values stay.
Graph fuse(const Graph& graph, const FusionRules& rules);

// Whether the node computes more than its op does without fusion: an activation, the mask of one in a
// gradient, or more operands and results of a batch norm.
bool is_fused(const Node& node);

}  // namespace assay
