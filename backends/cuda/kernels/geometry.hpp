// The numbers of threads and blocks of each kind of launch. Pure arithmetic, on the host.
#pragma once

#include <cstdint>

#include "backends/cuda/kernels/portable.hpp"

namespace assay::cuda {

struct Grid {
  std::int64_t blocks = 0;  // at most 2^31 - 1
  int threads = 0;          // per block
};

inline constexpr std::int64_t largest_grid = 2147483647;
// More than enough threads to fill a large GPU (132 processors with 2048 each).
inline constexpr std::int64_t many_threads = 1 << 18;

// One thread per element; if a grid cannot have that many, a thread handles several elements.
inline Grid grid_of_elements(std::int64_t elements) {
  return {smaller(ceil_div(elements, 256), largest_grid), 256};
}

// One block per row of `width` elements: 32, 64, 128 or 256 threads, about four elements per thread.
inline Grid grid_of_rows(std::int64_t rows, std::int64_t width) {
  int threads = 32;
  while (threads < 256 && threads * 4 < width) threads *= 2;
  return {smaller(rows, largest_grid), threads};
}

// Into how many parts each of `results` sums of `count` elements is split: enough to fill the device, with at
// least 64 elements per part.
inline std::int64_t parts_of_sum(std::int64_t results, std::int64_t count, std::int64_t threads_each = 1) {
  const std::int64_t wanted = ceil_div(many_threads, results * threads_each);
  return larger(1, smaller(wanted, count / (64 * threads_each)));
}

}  // namespace assay::cuda
