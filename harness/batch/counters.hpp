// The activity of this process and of others on its processors during a block.
#pragma once

#include <cstdint>

#include "harness/core/processor_times.hpp"

namespace assay {

// Counted from an arbitrary start; use differences.
struct Counters {
  std::int64_t cpu_ns = 0;  // of this process, all threads
  std::int64_t involuntary_switches = 0;
  std::int64_t minor_faults = 0;  // pages that the kernel mapped without a disk
  std::int64_t major_faults = 0;
  ProcessorTimes processors{};  // those that this process may run on
};

class CounterReader {
 public:
  // The processors are those that this thread may run on now.
  CounterReader();

  // Takes about 30 us on a small machine: call it outside of the timed part. Does not allocate.
  Counters read();

 private:
  ProcessorTimesReader processors_;
};

// CPU time of all descendants of this process, running or waited for. Takes about 10 us for each thread.
std::int64_t children_cpu_ns();

}  // namespace assay
