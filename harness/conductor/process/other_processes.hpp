// The CPU time of all processes that are not part of a worker.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>

namespace assay {

// By process: of all of its threads, and of the children that it waited for.
using ProcessTimes = std::map<pid_t, std::int64_t>;

// Of every process of the machine outside of the worker's tree (process_tree()), this one included. Nothing if this
// process does not see all of them: in the process namespace of a container, or if /proc hides those of others. Takes some
// 10 us per process.
std::optional<ProcessTimes> times_of_others(pid_t worker);

// What they used between two readings, in nanoseconds. At least that of processes that are still there, or that another
// one waited for; of these it also has their time before the first reading.
std::int64_t used_by_others(const ProcessTimes& before, const ProcessTimes& after);

}  // namespace assay
