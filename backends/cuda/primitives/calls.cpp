#include "backends/cuda/primitives/calls.hpp"

namespace assay::cuda {

TensorSpec packed(DType dtype, const Shape& shape) {
  TensorSpec spec{dtype, shape, Shape(shape.size(), 1)};
  for (std::size_t d = shape.size(); d-- > 1;) spec.strides[d - 1] = spec.strides[d] * shape[d];
  return spec;
}

TensorSpec image(const TensorType& type, Layout layout) {
  const Strides s = strides_of(type.shape, layout);
  return {type.dtype, type.shape, {s.n, s.c, s.h, s.w}};
}

TensorSpec dense(const TensorType& type) {
  if (type.shape.size() == 4) return packed(type.dtype, type.shape);
  const std::int64_t columns = type.shape.empty() ? 1 : type.shape.back();
  return packed(type.dtype, {type.elements() / columns, columns});
}

TensorSpec per_channel(std::int64_t channels) { return packed(DType::f32, {1, channels, 1, 1}); }

}  // namespace assay::cuda
