// Watches where the host has a worker's processors while its fork is timed.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "harness/machine/core_probe.hpp"
#include "harness/report/report.hpp"

namespace assay {

// For one thread.
class CoreWatch {
 public:
  using Seconds = std::chrono::duration<double>;
  // Replaceable by tests. pause: sleeps; returns false if the wait must end.
  struct Means {
    std::function<std::optional<CoreReading>(const std::vector<int>&)> read = read_cores;
    std::function<bool(Seconds)> pause{};
  };
  explicit CoreWatch(Means means);

  // Before the command `run`. While the processors are worse placed than at other times, waits, at most 10 s; after a
  // wait in vain only half as long the next time. may_wait: false reads once.
  void before_run(const std::vector<int>& processors, bool may_wait);
  // After the answer. Absent if there is only one processor, or nothing could be read both times.
  std::optional<CorePlacement> after_run(const std::vector<int>& processors);

 private:
  struct Known {
    std::vector<CoreReading> readings{};  // without those while it waited
    Seconds patience;
  };
  // Reads, and keeps the reading.
  std::optional<CoreReading> read(const std::vector<int>& processors);

  Means means_;
  std::map<std::vector<int>, Known> known_;  // by processors
  std::optional<CoreReading> before_;
};

}  // namespace assay
