// Layer norm and RMS norm of one row of floats: part of the table of loops.hpp.
#pragma once

#include <cstdint>

namespace assay::onednn {

struct RowNorms {
  // y = (x - mean) * inverse * scale + shift with inverse = 1 / sqrt(variance + epsilon). Without a shift:
  // RMS norm, with a mean of 0 and without mean_of. y may be x.
  void (*forward)(const float* x, const float* scale, const float* shift, float epsilon, std::int64_t n,
                  float* y, float* mean_of, float* inverse_of);
  // Adds the row to the gradients of scale and shift, and addend, unless it is nullptr, to dx. Without
  // shift_sums: RMS norm, with a mean of 0. dx may be x, dy or addend.
  void (*gradient)(const float* x, const float* scale, const float* dy, const float* addend, float mean,
                   float inverse, std::int64_t n, float* dx, float* scale_sums, float* shift_sums);
};

}  // namespace assay::onednn
