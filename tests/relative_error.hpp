// How far an answer is from the oracle's.
#pragma once

#include <cmath>

#include "harness/core/tensor.hpp"

namespace assay::testing {

// || got - expected || / || expected ||, of f32 against f64.
inline double relative_error(const HostTensor& got, const HostTensor& expected) {
  double error = 0, norm = 0;
  const auto a = got.as<float>();
  const auto b = expected.as<double>();
  for (std::size_t i = 0; i < b.size(); ++i) {
    error += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  return std::sqrt(error / norm);
}

}  // namespace assay::testing
