// Numbers of the steady clock, CLOCK_MONOTONIC.
#pragma once

#include <chrono>
#include <cstdint>

namespace assay {

inline std::chrono::steady_clock::duration duration_of(double seconds) {
  return std::chrono::duration_cast<std::chrono::steady_clock::duration>(
      std::chrono::duration<double>(seconds));
}

inline std::int64_t nanoseconds_at(std::chrono::steady_clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

}  // namespace assay
