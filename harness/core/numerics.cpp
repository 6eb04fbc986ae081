#include "harness/core/numerics.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>

#include <fmt/format.h>

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

double l2_norm(std::span<const double> values) {
  double squares = 0;
  for (const double value : values) squares += value * value;
  return std::sqrt(squares);
}

double l2_distance(std::span<const double> a, std::span<const double> b) {
  assert(a.size() == b.size());
  double squares = 0;
  for (std::size_t i = 0; i < a.size(); ++i) squares += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(squares);
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

std::size_t find_unusable(std::span<const float> values) {
  constexpr std::size_t block = 4096;
  const auto is_unusable = [](float value) { return !(std::abs(value) <= max_usable_value); };
  for (std::size_t begin = 0; begin < values.size(); begin += block) {
    const std::span<const float> part = values.subspan(begin, std::min(block, values.size() - begin));
    bool any = false;  // without an early exit, so that the loop is vectorised
    for (const float value : part) any |= is_unusable(value);
    if (any) return begin + static_cast<std::size_t>(std::ranges::find_if(part, is_unusable) - part.begin());
  }
  return values.size();
}

std::string unusable_text(float value) {
  if (!std::isfinite(value)) return fmt::format("{}; every value must be finite", value);
  return fmt::format("{:g}; values above {:g} overflow when fp32 sums their squares: scale them", value,
                     max_usable_value);
}

float from_f16(std::uint16_t value) {
  const float sign = (value & 0x8000U) != 0 ? -1.0F : 1.0F;
  const int exponent = (value >> 10) & 0x1f;
  const auto fraction = static_cast<float>(value & 0x3ffU);
  if (exponent == 0x1f) return fraction == 0 ? sign * INFINITY : NAN;
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(fraction + 1024, exponent - 25);
}

}  // namespace assay
