// Products without a vendor's library: one thread or team per result, correct and slow. The host runs them in
// the tests; a GPU runs them if its library has no engine for a shape.
#pragma once

#include <memory>

#include "backends/cuda/kernels/launch.hpp"
#include "backends/cuda/products.hpp"

namespace assay::cuda {

std::unique_ptr<Matmul> make_own_matmul(const MatmulSpec& spec, Stream stream);
std::unique_ptr<Convolution> make_own_convolution(const ConvolutionSpec& spec, Stream stream);

// y[i] = y[i] + bias of its column, then max(y, 0): follows a library's product that cannot fuse it.
// `columns` are `step` elements apart: column = i / step % columns.
void add_bias(Stream stream, DType dtype, void* y, std::int64_t elements, const float* bias,
              std::int64_t columns, std::int64_t step, bool relu);
// to[i] = from[i], from bf16 to f32
void widen_to_f32(Stream stream, const void* from, void* to, std::int64_t elements);
// dx[i] = 0 where mask[i] <= 0
void apply_mask(Stream stream, DType dtype, const void* mask, void* dx, std::int64_t elements);

}  // namespace assay::cuda
