// Indices of a tensor of up to eight dimensions, split into kept and summed dimensions.
#pragma once

#include <cstdint>
#include <span>

#include "backends/cuda/kernels/portable.hpp"
#include "harness/core/tensor.hpp"

namespace assay::cuda {

inline constexpr int max_dimensions = 8;

// Some dimensions of a tensor, numbered in row-major order, with their strides in memory.
struct Walk {
  int dimensions = 0;
  std::int64_t elements = 1;
  std::int64_t size[max_dimensions] = {};
  std::int64_t stride[max_dimensions] = {};

  void add(std::int64_t extent, std::int64_t step) {
    size[dimensions] = extent;
    stride[dimensions] = step;
    ++dimensions;
    elements *= extent;
  }
  // The offset of the element with that number.
  ASSAY_HD std::int64_t offset(std::int64_t number) const {
    std::int64_t at = 0;
    for (int d = dimensions; d-- > 0;) {
      at += number % size[d] * stride[d];
      number /= size[d];
    }
    return at;
  }
};

struct SplitWalk {
  Walk kept, summed;
};

// For a row-major tensor whose dimensions `axes` are summed.
inline SplitWalk split_walk(const Shape& shape, std::span<const std::int64_t> axes) {
  SplitWalk walk;
  std::int64_t stride = element_count(shape);
  for (std::size_t d = 0; d < shape.size(); ++d) {
    stride /= shape[d];
    bool summed = false;
    for (const std::int64_t axis : axes) summed = summed || axis == static_cast<std::int64_t>(d);
    (summed ? walk.summed : walk.kept).add(shape[d], stride);
  }
  return walk;
}

}  // namespace assay::cuda
