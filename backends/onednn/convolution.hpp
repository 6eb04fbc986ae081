// The primitives of a convolution and its gradients; the caller chooses the formats.
#pragma once

#include <vector>

#include "backends/onednn/lowering.hpp"

namespace assay::onednn {

// The three tensors of a convolution; any of them may be the result.
struct Trio {
  Desc image, weight, result;
};

// How oneDNN sees the weight of a node: in groups it is (groups, O / groups, I / groups, KH, KW).
TensorType grouped_weight(const Node& node, const TensorType& weight);

// choose() takes one of `candidates`, whose weights are grouped. Operands x, weight, bias (optional).
Lowered convolution_forward(const Request& request, const std::vector<Trio>& candidates);
// Operands dy, weight.
Lowered convolution_input_gradient(const Request& request, const std::vector<Trio>& candidates);
// Operands x, dy; results dweight, bias_gradient (optional).
Lowered convolution_weight_gradient(const Request& request, const std::vector<Trio>& candidates);

}  // namespace assay::onednn
