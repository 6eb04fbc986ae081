// Loops that reduce runs of floats or expand to them: part of the table of loops.hpp.
#pragma once

#include <cstdint>

namespace assay::onednn {

struct Folds {
  // Sums of at most a few thousand elements: in lanes of float, then in double.
  double (*sum)(const float* x, std::int64_t n);
  double (*dot)(const float* x, const float* y, std::int64_t n);
  float (*largest)(const float* x, std::int64_t n);  // n >= 1
  // acc[i] += x[i], x[i] * y[i]; acc[i] = max(acc[i], x[i])
  void (*add)(const float* x, double* acc, std::int64_t n);
  void (*add_product)(const float* x, const float* y, double* acc, std::int64_t n);
  void (*raise)(const float* x, double* acc, std::int64_t n);
  // y = x * factor; y[i] = x[i] * factors[i]
  void (*scale)(const float* x, float factor, float* y, std::int64_t n);
  void (*multiply)(const float* x, const float* factors, float* y, std::int64_t n);
  // y = x / (1 + |x|); dx = dy / (1 + |x|)^2
  void (*softsign)(const float* x, float* y, std::int64_t n);
  void (*softsign_gradient)(const float* x, const float* dy, float* dx, std::int64_t n);
  // bf16 to float, and back: round to nearest, ties to even.
  void (*widen)(const std::uint16_t* x, float* y, std::int64_t n);
  void (*narrow)(const float* x, std::uint16_t* y, std::int64_t n);
};

}  // namespace assay::onednn
