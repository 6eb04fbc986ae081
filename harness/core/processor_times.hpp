// How long processors were idle, and how much time the hypervisor took from them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "harness/core/io/file.hpp"

namespace assay {

// Sums over some processors, counted from an arbitrary start; use differences. The kernel counts in ticks of 10 ms.
struct ProcessorTimes {
  int count = 0;              // of the processors; 0: unknown
  std::int64_t idle_ns = 0;   // also while waiting for disks
  std::int64_t steal_ns = 0;  // taken by the hypervisor
};

// Those that this thread may run on now, ascending.
std::vector<int> allowed_processors();

class ProcessorTimesReader {
 public:
  // `stat`: a file such as /proc/stat.
  explicit ProcessorTimesReader(std::span<const int> processors,
                                const std::filesystem::path& stat = "/proc/stat");

  // Of those processors that are in the file. Takes about 30 us on a small machine. Does not allocate.
  ProcessorTimes read();

 private:
  Descriptor stat_;
  std::int64_t tick_ns_ = 0;
  std::vector<bool> read_;  // by number
  std::vector<char> text_;
};

}  // namespace assay
