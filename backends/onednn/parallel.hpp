// The team of threads that our own loops share with oneDNN: GNU OpenMP's.
#pragma once

#include <omp.h>

#include <cstdint>

namespace assay::onednn {

// Elements: a smaller part of an elementwise op is not worth a thread.
inline constexpr std::int64_t element_grain = 2048;
// Floats of a cache line.
inline constexpr std::int64_t line_floats = 16;

// Calls f(begin, end) on each thread, for disjoint ranges that cover [0, count) in multiples of `grain`. The
// division depends only on the arguments, so that sums are the same each time.
template <typename F>
void parallel(int threads, std::int64_t count, std::int64_t grain, F&& f) {
  const std::int64_t grains = (count + grain - 1) / grain;
  if (threads <= 1 || grains <= 1) {
    if (count > 0) f(std::int64_t{0}, count);
    return;
  }
#pragma omp parallel num_threads(threads)
  {
    const std::int64_t team = omp_get_num_threads(), me = omp_get_thread_num();
    const std::int64_t begin = grains * me / team * grain;
    std::int64_t end = grains * (me + 1) / team * grain;
    if (end > count) end = count;
    if (begin < end) f(begin, end);
  }
}

}  // namespace assay::onednn
