// TF32, the type of a matrix op's operands: the exponent of a float and 10 bits of mantissa, rounded to
// nearest even.
#pragma once

#include <bit>
#include <cstdint>

namespace assay::reference {

// A NaN stays a NaN. A number nearer to infinity than to the largest finite number becomes infinite, as in
// IEEE 754.
inline float to_tf32(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7f800000u) == 0x7f800000u) return value;
  return std::bit_cast<float>((bits + 0xfffu + ((bits >> 13) & 1u)) & 0xffffe000u);
}

}  // namespace assay::reference
