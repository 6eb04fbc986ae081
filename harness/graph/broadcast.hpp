// NumPy's broadcasting of two shapes: aligned at their last dimensions, a dimension of 1 or a missing one is
// repeated.
#pragma once

#include <optional>
#include <vector>

#include "harness/core/tensor.hpp"

namespace assay {

// The shape of a result of a and b; nothing if they have dimensions that neither agree nor are 1.
std::optional<Shape> broadcast_shape(const Shape& a, const Shape& b);

// How a kernel walks over a result and both row-major operands: dimensions of size 1 are dropped, and
// neighbours that both operands walk alike are one. A stride of 0 repeats an operand.
struct Broadcast {
  std::vector<std::int64_t> sizes, a,
      b;  // of the dimensions, and strides in elements; at least one dimension

  // The shape of an operand with these strides: its dimensions have the same sizes, or 1.
  Shape shape_of(const std::vector<std::int64_t>& strides) const;
};
// The shapes must have a broadcast_shape().
Broadcast broadcast(const Shape& a, const Shape& b);

}  // namespace assay
