// How many threads work on what. Pure arithmetic, decided on the host.
#pragma once

#include <cstdint>

#include "backends/cuda/kernels/portable.hpp"

namespace assay::cuda {

struct Grid {
  std::int64_t blocks = 0;  // at most 2^31 - 1
  int threads = 0;          // of a block
};

inline constexpr std::int64_t largest_grid = 2147483647;
// Enough threads to fill a large GPU (132 processors of 2048) with some to spare.
inline constexpr std::int64_t many_threads = 1 << 18;

// One thread an element; where a grid cannot have as many, a thread takes several.
inline Grid grid_of_elements(std::int64_t elements) {
  return {smaller(ceil_div(elements, 256), largest_grid), 256};
}

// One block a row of `width` elements: 32, 64, 128 or 256 threads, so that each has some four of them.
inline Grid grid_of_rows(std::int64_t rows, std::int64_t width) {
  int threads = 32;
  while (threads < 256 && threads * 4 < width) threads *= 2;
  return {smaller(rows, largest_grid), threads};
}

// In how many parts `count` elements of each of `results` sums are summed: as many as fill the device, each
// of 64 elements or more.
inline std::int64_t parts_of_sum(std::int64_t results, std::int64_t count, std::int64_t threads_each = 1) {
  const std::int64_t wanted = ceil_div(many_threads, results * threads_each);
  return larger(1, smaller(wanted, count / (64 * threads_each)));
}

}  // namespace assay::cuda
