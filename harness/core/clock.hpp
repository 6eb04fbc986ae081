// The one clock: CLOCK_MONOTONIC, shared by the conductor and its workers on a machine.
#pragma once

#include <cstdint>
#include <string>

namespace assay {

// Nanoseconds since an arbitrary start. About 20 ns through the vDSO; a system call where the machine's time
// source forbids that.
std::int64_t now_ns();

struct ClockQuality {
  std::string name = "CLOCK_MONOTONIC";
  std::int64_t resolution_ns = 0;  // the smallest difference seen between two readings that differ
  double cost_ns = 0;              // of one reading, median
};
// Takes about a tenth of a millisecond.
ClockQuality measure_clock();

}  // namespace assay
