// The processes that a process started, as /proc lists them.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace assay {

// Adds the children of a process ("self" or its number) to `processes`, until there are 4096: this bounds the
// walk over a tree that grows. A process that has ended has no children.
void add_children(const std::string& process, std::vector<pid_t>& processes);

// How long the threads of a process ("self" or its number) have waited for a processor, ready to run: the sum over its
// threads, from /proc/PROCESS/task/*/schedstat. Misses threads that have ended. Takes about 10 us for each thread. Nothing
// if the kernel does not count it, or the process has ended.
std::optional<std::int64_t> process_waited_ns(const std::string& process);

// CPU time of all threads of one process, without its children; nothing if it has ended.
std::optional<std::int64_t> process_cpu_ns(pid_t process);

}  // namespace assay
