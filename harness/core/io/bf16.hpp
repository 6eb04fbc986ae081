// bfloat16 in host memory: the upper half of a float.
#pragma once

#include <bit>
#include <cstdint>

namespace assay {

// Rounds to nearest, ties to even. A NaN stays one (quiet), what is too large becomes infinite.
constexpr std::uint16_t to_bf16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>((bits >> 16) | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

constexpr float from_bf16(std::uint16_t value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value) << 16);
}

}  // namespace assay
