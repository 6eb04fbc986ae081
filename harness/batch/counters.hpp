// What else happened on the machine while a block ran.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "harness/core/io/file.hpp"

namespace assay {

// Since some start; differences are what counts.
struct Counters {
  std::int64_t cpu_ns = 0;  // of this process, all threads
  std::int64_t involuntary_switches = 0;
  std::int64_t major_faults = 0;
  // Of the processors that this process may run on, together; the kernel reports them in ticks of 10 ms.
  std::int64_t idle_ns = 0;   // also while waiting for disks
  std::int64_t steal_ns = 0;  // taken by the hypervisor
};

class CounterReader {
 public:
  // `stat`: a file such as /proc/stat. The processors are those that this thread may run on now.
  explicit CounterReader(const std::filesystem::path& stat = "/proc/stat");

  // About 30 us on a small machine: call it outside of the timed stretch. Does not allocate.
  Counters read();

  // How many processors the file has of those that this thread may run on; 0: idle_ns and steal_ns are not known.
  int processors() const { return processors_; }

 private:
  void add_processors(Counters& counters);

  Descriptor stat_;
  std::int64_t tick_ns_ = 0;
  std::vector<bool> allowed_;  // by number
  std::vector<char> text_;
  int processors_ = 0;
};

// CPU time of the child processes of this one and of theirs, whether they live or were waited for. Some ten
// microseconds a thread.
std::int64_t children_cpu_ns();

}  // namespace assay
