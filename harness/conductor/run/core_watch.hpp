// Watches whether a worker's processors have a physical core each while its fork is timed.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <utility>
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
    std::function<std::optional<double>(const std::vector<int>&)> slowdown = slowdown_together;
    std::function<bool(Seconds)> pause;
  };
  explicit CoreWatch(Means means) : means_(std::move(means)) {}

  // Before the command `run`. If some of the processors are on one core, waits until they are not, but at most 3 s;
  // on processors that were never apart, 10 s the first time, and then not at all. may_wait: false measures once.
  void before_run(const std::vector<int>& processors, bool may_wait);
  // After the answer. Absent if there is only one processor, or the slowdown could not be measured both times.
  std::optional<CoreSharing> after_run(const std::vector<int>& processors);

 private:
  // Measures, and keeps the lowest value.
  std::optional<double> measure(const std::vector<int>& processors);

  Means means_;
  std::map<std::vector<int>, double> lowest_;  // by processors
  std::optional<double> before_;
};

// Whether processors that at other times have a core each were on one core before or after the timed run.
bool had_shared_core(const CoreSharing& sharing);

}  // namespace assay
