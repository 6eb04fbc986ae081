// The elements of a tensor by their numbers, as the host's calls read and write them.
#pragma once

#include "backends/cuda/kernels/portable.hpp"
#include "backends/cuda/primitives/calls.hpp"

namespace assay::cuda {

// The elements of a tensor, by their number in row-major order of `shape`; a dimension in which the tensor
// has 1 is repeated.
template <typename Pointer>
class View {
 public:
  View(const TensorSpec& spec, Pointer base) : View(spec, base, spec.shape) {}
  View(const TensorSpec& spec, Pointer base, const Shape& shape)
      : dtype_(spec.dtype), base_(base), shape_(shape), strides_(spec.strides) {
    for (std::size_t d = 0; d < shape_.size(); ++d) {
      if (spec.shape[d] != shape_[d]) strides_[d] = 0;
    }
  }

  double get(std::int64_t number) const {
    const std::int64_t at = offset(number);
    if (dtype_ == DType::bf16) return static_cast<double>(widen(static_cast<const Bf16*>(base_)[at]));
    return static_cast<double>(static_cast<const float*>(base_)[at]);
  }
  void set(std::int64_t number, double value) const {
    const std::int64_t at = offset(number);
    const auto rounded = static_cast<float>(value);
    if (dtype_ == DType::bf16) {
      static_cast<Bf16*>(base_)[at] = narrow<Bf16>(rounded);
    } else {
      static_cast<float*>(base_)[at] = rounded;
    }
  }
  std::int64_t count() const { return element_count(shape_); }

 private:
  std::int64_t offset(std::int64_t number) const {
    std::int64_t at = 0;
    for (std::size_t d = shape_.size(); d-- > 0;) {
      at += number % shape_[d] * strides_[d];
      number /= shape_[d];
    }
    return at;
  }

  DType dtype_;
  Pointer base_;
  Shape shape_, strides_;
};
using In = View<const void*>;
using Out = View<void*>;

}  // namespace assay::cuda
