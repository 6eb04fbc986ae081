// The shape rules that the two pools share, and those of their gradients.
#pragma once

#include <vector>

#include "harness/graph/ops/rules.hpp"

namespace assay {

// y of a pool over x, operand 0. Throws GraphError.
TensorType infer_pool(const Operands& in, const Attributes& attributes);
// dx from dy, operand 0, whose shape must follow from the attribute size; operand `mask` may be there.
TensorType infer_pool_gradient(const Operands& in, const Attributes& attributes, std::size_t mask);
// What the gradient's node is told: the attributes of the pool and the size of x.
Attributes pool_gradient_attributes(const Graph& graph, const Node& pool);
// Elements of one window.
double window_elements(const Attributes& attributes);

}  // namespace assay
