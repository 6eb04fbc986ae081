// The activity of other processes on the machine during a block.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "harness/core/io/file.hpp"

namespace assay {

// Counted from an arbitrary start; use differences.
struct Counters {
  std::int64_t cpu_ns = 0;  // of this process, all threads
  std::int64_t involuntary_switches = 0;
  std::int64_t minor_faults = 0;  // pages that the kernel mapped without a disk
  std::int64_t major_faults = 0;
  // Sums over the processors that this process may run on; the kernel counts in ticks of 10 ms.
  std::int64_t idle_ns = 0;   // also while waiting for disks
  std::int64_t steal_ns = 0;  // taken by the hypervisor
};

class CounterReader {
 public:
  // `stat`: a file such as /proc/stat. The processors are those that this thread may run on now.
  explicit CounterReader(const std::filesystem::path& stat = "/proc/stat");

  // Takes about 30 us on a small machine: call it outside of the timed part. Does not allocate.
  Counters read();

  // The number of processors in the file that this thread may run on; 0: idle_ns and steal_ns are unknown.
  int processors() const { return processors_; }

 private:
  void add_processors(Counters& counters);

  Descriptor stat_;
  std::int64_t tick_ns_ = 0;
  std::vector<bool> allowed_;  // by number
  std::vector<char> text_;
  int processors_ = 0;
};

// CPU time of all descendants of this process, running or waited for. Takes about 10 us for each thread.
std::int64_t children_cpu_ns();

}  // namespace assay
