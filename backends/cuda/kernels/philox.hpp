// Philox4x32-10 (Salmon et al. 2011) on the device: the same numbers as harness/core/io/philox.hpp.
#pragma once

#include <cstdint>

#include "backends/cuda/kernels/portable.hpp"

namespace assay::cuda {

struct Words {
  std::uint32_t word[4];
};

ASSAY_HD inline Words philox4x32(Words counter, std::uint32_t key0, std::uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t first = std::uint64_t{0xD2511F53U} * counter.word[0];
    const std::uint64_t second = std::uint64_t{0xCD9E8D57U} * counter.word[2];
    counter = {{static_cast<std::uint32_t>(second >> 32) ^ counter.word[1] ^ key0,
                static_cast<std::uint32_t>(second),
                static_cast<std::uint32_t>(first >> 32) ^ counter.word[3] ^ key1,
                static_cast<std::uint32_t>(first)}};
    key0 += 0x9E3779B9U;
    key1 += 0xBB67AE85U;
  }
  return counter;
}

}  // namespace assay::cuda
