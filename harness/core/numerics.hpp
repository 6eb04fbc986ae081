// The precision of number formats, and the distance between two tensors.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "harness/core/tensor.hpp"

namespace assay {

// Half the distance from 1 to the next larger number: 2^-24 for f32, 2^-8 for bf16. 0 for integers.
double unit_roundoff(DType dtype);

// The root of the sum of squares; of the differences of two equally long lists.
double l2_norm(std::span<const double> values);
double l2_distance(std::span<const double> a, std::span<const double> b);

struct ErrorNorms {
  double max = 0;  // largest absolute error
  double l2 = 0;   // relative L2 error
};

// max |got - exact| and ||got - exact|| / ||exact||; absolute if `exact` is all zero. Both are infinite if an
// element of the difference is not finite. Both arguments must have the same length.
ErrorNorms error_norms(std::span<const double> got, std::span<const double> exact);

// The largest size of a sample's or a parameter's value that is read from a file. Sums of squares of up to 1e8 such
// values are finite in fp32.
inline constexpr float max_usable_value = 1e15F;
// The place of the first value that is not finite or is larger than that; values.size() if there is none. Reads the
// values once.
std::size_t find_unusable(std::span<const float> values);
// Describes such a value and how to fix an array of them: "nan; values must be finite ...".
std::string unusable_text(float value);

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

// IEEE half precision (f16) to f32, exactly; NaNs stay NaNs.
float from_f16(std::uint16_t value);

}  // namespace assay
