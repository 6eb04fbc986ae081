// What a worker uses of the machine, seen from outside at a low rate.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>

#include "harness/report/report.hpp"

namespace assay {

// Follows one process with all its threads; microseconds a sample.
class WorkerSampler {
 public:
  // Nothing the first time (a rate needs two looks) and when the process is gone.
  std::optional<MachineSample> sample(pid_t process);

 private:
  std::int64_t last_time_ns_ = 0;
  std::int64_t last_cpu_ns_ = 0;
};

}  // namespace assay
