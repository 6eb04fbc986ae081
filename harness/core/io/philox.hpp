// Philox4x32-10, a counter-based generator: Salmon, Moraes, Dror & Shaw, "Parallel random numbers: as easy as
// 1, 2, 3", SC'11. It gives the same numbers on every machine, and each stream can be computed independently.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace assay {

// One block: four 32-bit numbers for a counter and a key.
std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                        std::array<std::uint32_t, 2> key);

// The 64-bit FNV-1a hash, which gives each named stream its own counter.
std::uint64_t fnv1a(std::string_view text);

// A stream of numbers. Key: the seed. Counter: the block's index (low 64 bits) and the hash of the name (high
// 64 bits). A copy continues from the same position, independently of the original.
class Philox {
 public:
  Philox(std::uint64_t seed, std::string_view name);

  std::uint32_t next();
  std::uint64_t next64();
  float uniform();          // [0, 1), 24 bits
  double uniform_double();  // [0, 1), 53 bits
  double uniform(double low, double high) { return low + (high - low) * uniform_double(); }
  // [0, bound), without bias (Lemire, "Fast random integer generation in an interval", 2019). bound >= 1.
  std::uint64_t below(std::uint64_t bound);
  // Mean 0, variance 1 (Box & Muller 1958). Uses the C library's log, cos and sin.
  double normal();

  // Fisher-Yates.
  template <typename T>
  void shuffle(std::span<T> values) {
    for (std::size_t i = values.size(); i > 1; --i) {
      const std::size_t j = below(i);
      const T held = values[i - 1];
      values[i - 1] = values[j];
      values[j] = held;
    }
  }

 private:
  std::uint64_t seed_;
  std::uint64_t stream_;
  std::uint64_t index_ = 0;
  std::array<std::uint32_t, 4> block_ = {};
  int used_ = 4;
  double spare_ = 0;
  bool has_spare_ = false;
};

}  // namespace assay
