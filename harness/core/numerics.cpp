#include "harness/core/numerics.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace assay {

double unit_roundoff(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return 0x1p-53;
    case DType::f32:
      return 0x1p-24;
    case DType::bf16:
      return 0x1p-8;
    default:
      return 0;
  }
}

ErrorNorms error_norms(std::span<const double> got, std::span<const double> exact) {
  assert(got.size() == exact.size());
  ErrorNorms error;
  double squares = 0;
  double scale = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const double difference = std::abs(got[i] - exact[i]);
    if (!std::isfinite(difference)) return {INFINITY, INFINITY};
    error.max = std::max(error.max, difference);
    squares += difference * difference;
    scale += exact[i] * exact[i];
  }
  error.l2 = std::sqrt(scale > 0 ? squares / scale : squares);
  return error;
}

}  // namespace assay
