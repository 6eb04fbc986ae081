// The primitives of a convolution and its gradients, for whoever chooses the formats.
#pragma once

#include <vector>

#include "backends/onednn/lowering.hpp"

namespace assay::onednn {

// The three tensors of a convolution, whichever of them is the result.
struct Trio {
  Desc image, weight, result;
};

// Of `candidates` choose() takes one. Operands x, weight, bias (optional).
Lowered convolution_forward(const Request& request, const std::vector<Trio>& candidates);
// Operands dy, weight.
Lowered convolution_input_gradient(const Request& request, const std::vector<Trio>& candidates);
// Operands x, dy; results dweight, bias_gradient (optional).
Lowered convolution_weight_gradient(const Request& request, const std::vector<Trio>& candidates);

}  // namespace assay::onednn
