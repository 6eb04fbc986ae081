// What else happened on the machine while a block ran.
#pragma once

#include <cstdint>

#include "harness/core/io/file.hpp"

namespace assay {

// Since some start; differences are what counts.
struct Counters {
  std::int64_t cpu_ns = 0;  // of this process, all threads
  std::int64_t involuntary_switches = 0;
  std::int64_t major_faults = 0;
  std::int64_t steal_ns = 0;  // taken by the hypervisor from all processors of the machine, in ticks of 10 ms
};

class CounterReader {
 public:
  CounterReader();
  // About 30 us on a small machine: to be called outside of what is timed. Does not allocate.
  Counters read() const;

 private:
  Descriptor stat_;  // /proc/stat; without it steal_ns stays 0
  std::int64_t tick_ns_ = 0;
};

}  // namespace assay
