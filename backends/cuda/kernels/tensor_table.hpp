// Tables of the tensors that one launch works on, which are a kernel's parameters.
#pragma once

#include <cstdint>

#include "backends/cuda/kernels/portable.hpp"

namespace assay::cuda {

// A kernel's parameters may take 32 KiB; more tensors take several launches.
inline constexpr int max_tensors = 256;

// The tensor that share i belongs to. Each has the number of its first share, `first`, in ascending order; that of
// the first tensor is 0.
template <typename Tensor>
ASSAY_HD const Tensor& tensor_of(const Tensor* tensors, int count, std::int64_t i) {
  int low = 0, high = count - 1;
  while (low < high) {
    const int middle = (low + high + 1) / 2;
    if (tensors[middle].first <= i) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return tensors[low];
}

// A team's share of a tensor.
inline constexpr std::int64_t part_elements = 1 << 12;

struct Part {
  std::int64_t first, end;  // elements
};

// The elements of share `part`, which belongs to this tensor, if shares are parts.
template <typename Tensor>
ASSAY_HD Part part_of(const Tensor& tensor, std::int64_t part) {
  const std::int64_t first = (part - tensor.first) * part_elements;
  return {first, smaller(first + part_elements, tensor.elements)};
}

}  // namespace assay::cuda
