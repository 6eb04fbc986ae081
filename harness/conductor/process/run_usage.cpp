#include "harness/conductor/process/run_usage.hpp"

#include <algorithm>
#include <string>

#include "harness/conductor/process/worker_sampler.hpp"
#include "harness/protocol/disturbance.hpp"

namespace assay {

RunUsage RunUsageReader::read(pid_t worker) {
  return {processors_.read(),     processor_time_ns(worker),           tree_processor_time_ns(worker),
          tree_waited_ns(worker), quota_stops(std::to_string(worker)), times_of_others(worker)};
}

void note_usage(ConversationResult& result, const RunUsage& before, const RunUsage& after) {
  if (before.own_cpu_ns && after.own_cpu_ns) result.run_cpu_ns = *after.own_cpu_ns - *before.own_cpu_ns;
  if (before.stops && after.stops)
    result.quota_stopped_ns = std::max<std::int64_t>(0, after.stops->ns - before.stops->ns);
  if (before.waited_ns && after.waited_ns) result.run_waited_ns = *after.waited_ns - *before.waited_ns;
  if (before.others && after.others) result.run_others_ns = used_by_others(*before.others, *after.others);
  if (!before.tree_cpu_ns || !after.tree_cpu_ns) return;
  // The time of a child that nobody waits for is lost, so the sum may fall.
  const std::int64_t own_ns = std::max<std::int64_t>(0, *after.tree_cpu_ns - *before.tree_cpu_ns);
  result.run_disturbance = disturbance_between(
      before.processors, after.processors, result.ran_between->end_ns - result.ran_between->begin_ns, own_ns);
}

}  // namespace assay
