// The two layouts of this backend. Plain is row-major; channels_last keeps an image (N, C, H, W) as
// N, H, W, C and a filter (K, C, R, S) as K, R, S, C.
#pragma once

#include <cstdint>

#include "harness/core/tensor.hpp"
#include "harness/engine/kernel_library.hpp"

namespace assay::cuda {

enum class Layout : std::uint8_t { plain, channels_last };

// Plain if both layouts are equal: fewer or more than four dimensions, one channel, or one pixel.
Format format_of(const TensorType& type, Layout layout);
// The layout of a format of this backend.
Layout layout_of(const Format& format);
// Storage of `bytes` that only the kernels of its op read, with the layout of an image in `layout`.
Format opaque_format(std::int64_t bytes, Layout layout);

// Elements between neighbours in each dimension of (N, C, H, W).
struct Strides {
  std::int64_t n = 0, c = 0, h = 0, w = 0;
};
Strides strides_of(const Shape& shape, Layout layout);

}  // namespace assay::cuda
