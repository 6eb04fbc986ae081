#include "harness/core/clock.hpp"

#include <time.h>

#include <algorithm>
#include <array>
#include <limits>

#include "harness/core/statistics.hpp"

namespace assay {

std::int64_t now_ns() {
  timespec time = {};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

ClockQuality measure_clock() {
  constexpr int readings = 256;
  std::array<double, 9> costs = {};
  std::int64_t smallest = std::numeric_limits<std::int64_t>::max();
  for (double& cost : costs) {
    const std::int64_t begin = now_ns();
    std::int64_t last = begin;
    for (int i = 0; i < readings; ++i) {
      const std::int64_t now = now_ns();
      if (now > last) smallest = std::min(smallest, now - last);
      last = now;
    }
    cost = static_cast<double>(last - begin) / readings;
  }
  ClockQuality quality;
  quality.resolution_ns = smallest == std::numeric_limits<std::int64_t>::max() ? 0 : smallest;
  quality.cost_ns = median(costs);
  return quality;
}

}  // namespace assay
