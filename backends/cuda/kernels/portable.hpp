// Element types and arithmetic that run on the device and, for the tests, on the host.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#if defined(__CUDACC__)
#define ASSAY_HD __host__ __device__
#else
#define ASSAY_HD
#endif

// In front of a loop whose arrays are to be in registers.
#if defined(__CUDACC__)
#define ASSAY_UNROLL _Pragma("unroll")
#else
#define ASSAY_UNROLL
#endif

namespace assay::cuda {

struct Bf16 {
  std::uint16_t bits;
};

ASSAY_HD inline float float_from(std::uint32_t bits) {
#if defined(__CUDA_ARCH__)
  return __uint_as_float(bits);
#else
  return std::bit_cast<float>(bits);
#endif
}

ASSAY_HD inline std::uint32_t bits_of(float value) {
#if defined(__CUDA_ARCH__)
  return __float_as_uint(value);
#else
  return std::bit_cast<std::uint32_t>(value);
#endif
}

ASSAY_HD inline float widen(float value) { return value; }
ASSAY_HD inline float widen(Bf16 value) { return float_from(static_cast<std::uint32_t>(value.bits) << 16); }

// Rounds to nearest, ties to even; a NaN stays a NaN.
template <typename T>
ASSAY_HD T narrow(float value);
template <>
ASSAY_HD inline float narrow<float>(float value) {
  return value;
}
template <>
ASSAY_HD inline Bf16 narrow<Bf16>(float value) {
  const std::uint32_t bits = bits_of(value);
  if (value != value) return {static_cast<std::uint16_t>((bits >> 16) | 0x40U)};
  return {static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16)};
}

ASSAY_HD inline float relu(float value) { return value < 0 ? 0.0F : value; }
ASSAY_HD inline float sigmoid(float value) { return 1.0F / (1.0F + expf(-value)); }
ASSAY_HD inline std::int64_t smaller(std::int64_t a, std::int64_t b) { return a < b ? a : b; }
ASSAY_HD inline std::int64_t larger(std::int64_t a, std::int64_t b) { return a > b ? a : b; }
ASSAY_HD inline std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace assay::cuda
