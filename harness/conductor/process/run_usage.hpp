// What a worker and its processors use during the command `run`, from outside.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <span>

#include "harness/conductor/process/conversation.hpp"
#include "harness/conductor/process/other_processes.hpp"
#include "harness/core/processor_times.hpp"
#include "harness/machine/environment.hpp"

namespace assay {

// At one moment.
struct RunUsage {
  ProcessorTimes processors{};
  std::optional<std::int64_t> own_cpu_ns{}, tree_cpu_ns{}, waited_ns{};
  std::optional<QuotaStops> stops{};
  std::optional<ProcessTimes> others{};
};

class RunUsageReader {
 public:
  explicit RunUsageReader(std::span<const int> processors) : processors_(processors) {}

  RunUsage read(pid_t worker);

 private:
  ProcessorTimesReader processors_;
};

// Sets the fields of the result that say what was used between the two. Precondition: ran_between.
void note_usage(ConversationResult& result, const RunUsage& before, const RunUsage& after);

}  // namespace assay
