// The time of one fork, from its raw blocks.
#pragma once

#include <cstdint>
#include <optional>

#include "harness/report/report.hpp"

namespace assay {

struct ForkTime {
  double step_seconds = 0;  // median over the timed blocks of time over steps
  double cpu_seconds = 0;   // the same of the CPU time
  std::int64_t steps = 0;
};

// What the metric step_time is the median of. Nothing where no block was timed. Of a fork that counts epochs
// the first one, which compiles, is left out when there are more.
std::optional<ForkTime> fork_time(const Fork& fork);

}  // namespace assay
