// bfloat16 as a storage type: the top half of a float, rounded to nearest even.
#pragma once

#include <bit>
#include <cstdint>

namespace assay::reference {

struct Bf16 {
  std::uint16_t bits = 0;

  Bf16() = default;
  explicit Bf16(float value) {
    const auto wide = std::bit_cast<std::uint32_t>(value);
    const bool nan = value != value;
    bits = static_cast<std::uint16_t>(nan ? (wide >> 16) | 0x40 : (wide + 0x7fff + ((wide >> 16) & 1)) >> 16);
  }
  explicit operator float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
};

}  // namespace assay::reference
