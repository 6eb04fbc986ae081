// Why a worker ended too early, from what it left behind.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "harness/conductor/process/worker_process.hpp"
#include "harness/report/report.hpp"

namespace assay {

struct Verdict {
  Status status = Status::failed;
  std::string reason;
};

// How often the kernel's out-of-memory killer has struck since boot; 0 where it cannot be read.
std::int64_t oom_kills();

// `doing`: "before hello", "during compile". `log`: the end of what it printed. `oom_struck`: the killer
// struck meanwhile.
Verdict explain_death(const WorkerExit& exit, std::string_view doing, std::string_view log, bool oom_struck);

}  // namespace assay
