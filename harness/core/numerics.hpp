// The precision of number formats, and the distance between two tensors.
#pragma once

#include <bit>
#include <cstdint>
#include <span>

#include "harness/core/tensor.hpp"

namespace assay {

// Half the distance from 1 to the next larger number: 2^-24 for f32, 2^-8 for bf16. 0 for integers.
double unit_roundoff(DType dtype);

struct ErrorNorms {
  double max = 0;  // largest absolute error
  double l2 = 0;   // relative L2 error
};

// max |got - exact| and ||got - exact|| / ||exact||; absolute if `exact` is all zero. Both are infinite if an
// element of the difference is not finite. Both arguments must have the same length.
ErrorNorms error_norms(std::span<const double> got, std::span<const double> exact);

// bfloat16 in host memory is the upper half of a float. Rounds to nearest, ties to even. A NaN stays a
// (quiet) NaN; a value that is too large becomes infinite.
constexpr std::uint16_t to_bf16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>((bits >> 16) | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

constexpr float from_bf16(std::uint16_t value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value) << 16);
}

}  // namespace assay
