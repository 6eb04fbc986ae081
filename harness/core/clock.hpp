// The only clock: CLOCK_MONOTONIC, shared by the conductor and its workers on a machine.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace assay {

// Nanoseconds since an arbitrary start. Takes about 20 ns through the vDSO, or a system call if the machine's
// time source does not allow the vDSO.
std::int64_t now_ns();

inline double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

struct ClockQuality {
  std::string name = "CLOCK_MONOTONIC";
  std::int64_t resolution_ns = 0;  // the smallest difference seen between two readings that differ
  double cost_ns = 0;              // median cost of one reading
};
// Takes about a tenth of a millisecond.
ClockQuality measure_clock();

}  // namespace assay
