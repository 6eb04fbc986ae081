// Tables of the tensors that one launch works on, which are a kernel's parameters.
#pragma once

#include <cstdint>

#include "backends/cuda/kernels/portable.hpp"

namespace assay::cuda {

// A kernel's parameters may take 32 KiB; more tensors take several launches.
inline constexpr int max_tensors = 256;

// The tensors of a launch. Each has the number of its first share, `first`, in ascending order.
template <typename Tensor>
struct TensorTable {
  std::int64_t shares = 0;  // of all
  int count = 0;
  Tensor of[max_tensors] = {};

  // The tensor that share i belongs to.
  ASSAY_HD const Tensor& at(std::int64_t i) const {
    int low = 0, high = count - 1;
    while (low < high) {
      const int middle = (low + high + 1) / 2;
      if (of[middle].first <= i) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    return of[low];
  }

  // Adds a tensor, and calls launch() and begins again if no more fit. The caller launches what is left.
  template <typename Launch>
  void add(Tensor tensor, std::int64_t its_shares, const Launch& launch) {
    tensor.first = shares;
    of[count++] = tensor;
    shares += its_shares;
    if (count < max_tensors) return;
    launch();
    shares = count = 0;
  }
};

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
