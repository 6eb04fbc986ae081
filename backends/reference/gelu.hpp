// The two formulas of GELU.
#pragma once

#include <cmath>

namespace assay::reference {

inline constexpr double root_half = 0.70710678118654752440;       // sqrt(1 / 2)
inline constexpr double root_two_by_pi = 0.79788456080286535588;  // sqrt(2 / pi)
inline constexpr double cubic = 0.044715;

// The complement keeps the digits of the small values far below zero.
template <typename T>
T gelu(T x) {
  return T(0.5) * x * std::erfc(-x * T(root_half));
}
template <typename T>
T gelu_tanh(T x) {
  return T(0.5) * x * (T(1) + std::tanh(T(root_two_by_pi) * (x + T(cubic) * x * x * x)));
}

}  // namespace assay::reference
