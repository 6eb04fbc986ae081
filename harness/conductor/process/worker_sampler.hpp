// What a worker uses of the machine, seen from outside at a low rate.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "harness/report/report.hpp"

namespace assay {

// Follows one process with all its threads and the processes below it, found by the lists of children in
// /proc: some ten microseconds a thread and sample. CPU time is that of every live process of the tree and of
// the children it has waited for. Resident bytes are summed over the live processes: pages that they share
// count in each. A process whose parent died is nobody's child and is not seen.
class WorkerSampler {
 public:
  // Nothing the first time (a rate needs two looks) and when the process is gone.
  std::optional<MachineSample> sample(pid_t process);

  // Those of the last look, the worker's own first; empty before.
  std::span<const pid_t> processes() const { return processes_; }
  // A processor on which a thread of those processes may run although it is none of `cores`; nothing where there is
  // none, or `cores` is empty.
  std::optional<int> processor_outside(std::span<const int> cores) const;
  // The largest sum of resident bytes seen so far, also by a first look; 0 before.
  std::int64_t peak_rss() const { return peak_rss_; }

 private:
  std::int64_t last_time_ns_ = 0;
  std::int64_t last_cpu_ns_ = 0;
  double last_rate_ = 0;
  std::int64_t peak_rss_ = 0;
  std::vector<pid_t> processes_;
};

}  // namespace assay
