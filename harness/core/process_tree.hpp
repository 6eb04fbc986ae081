// The processes that a process started, as /proc lists them.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace assay {

// Adds the children of a process ("self" or its number) to `processes`, until there are 4096: this bounds the
// walk over a tree that grows. A process that has ended has no children.
void add_children(const std::string& process, std::vector<pid_t>& processes);

// Adds everything below the processes in the list, in the order of generations, with the same limit.
void add_descendants(std::vector<pid_t>& processes);

// The process that started `process`, or that became its parent when that one ended. -1 if it has ended.
pid_t parent_of(pid_t process);

// Kills the children of this process for which `is_wanted` is true, with everything below them, and reaps the children.
// Repeats until there are none: a killed process may just have started another one, whose parent this process becomes if
// it is a subreaper (PR_SET_CHILD_SUBREAPER). Returns false if some are left after `patience`.
bool end_children(const std::function<bool(pid_t)>& is_wanted, std::chrono::milliseconds patience);

// How long the threads of a process ("self" or its number) have waited for a processor, ready to run: the sum over its
// threads, from /proc/PROCESS/task/*/schedstat. Misses threads that have ended. Takes about 10 us for each thread. Nothing
// if the kernel does not count it, or the process has ended.
std::optional<std::int64_t> process_waited_ns(const std::string& process);

// CPU time of all threads of one process, without its children; nothing if it has ended.
std::optional<std::int64_t> process_cpu_ns(pid_t process);

}  // namespace assay
