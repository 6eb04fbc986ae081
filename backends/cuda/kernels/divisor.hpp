// Division by a number that is known when a kernel is launched: a multiplication and a shift.
#pragma once

#include <cstdint>

#include "backends/cuda/kernels/portable.hpp"

namespace assay::cuda {

// For dividends below 2^31 (Granlund and Montgomery 1994, theorem 4.2 with 31 bits).
class Divisor {
 public:
  // 0 < divisor < 2^31.
  explicit Divisor(std::int64_t divisor) : divisor_(static_cast<std::uint32_t>(divisor)) {
    if (divisor_ == 1) return;
    std::uint32_t bits = 0;  // the least with 2^bits >= divisor
    while ((std::uint64_t{1} << bits) < divisor_) ++bits;
    const std::uint64_t power = std::uint64_t{1} << (31 + bits);
    multiplier_ = static_cast<std::uint32_t>((power + divisor_ - 1) / divisor_);
    shift_ = bits - 1;
  }

  ASSAY_HD std::uint32_t quotient(std::uint32_t dividend) const {
    if (divisor_ == 1) return dividend;
    return static_cast<std::uint32_t>((std::uint64_t{dividend} * multiplier_) >> 32) >> shift_;
  }
  ASSAY_HD std::uint32_t remainder(std::uint32_t dividend) const {
    return dividend - quotient(dividend) * divisor_;
  }

 private:
  std::uint32_t divisor_, multiplier_ = 0, shift_ = 0;
};

inline constexpr std::int64_t end_of_dividends = std::int64_t{1} << 31;

}  // namespace assay::cuda
