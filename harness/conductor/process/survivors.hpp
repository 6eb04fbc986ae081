// Ensures that no process outlives the worker that started it, and no worker outlives this program.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <vector>

namespace assay {

// While an object exists, the processes that a worker leaves behind become children of this program
// (PR_SET_CHILD_SUBREAPER), even those in their own session, and are killed when the worker has ended. A
// watchdog process waits for the end of this program and then kills its remaining workers. Children that this program
// already has are left alone. At most one object at a time. Construct it before there are threads.
class SurvivorGuard {
 public:
  SurvivorGuard();
  ~SurvivorGuard();
  SurvivorGuard(const SurvivorGuard&) = delete;
  SurvivorGuard& operator=(const SurvivorGuard&) = delete;
};

// The environment variable that marks a process as part of a worker; its value is the cell folder.
inline constexpr const char* folder_variable = "ASSAY_FOLDER";

// fork() for a worker that will have `folder` in `folder_variable`. Any thread.
pid_t fork_worker(const std::filesystem::path& folder);

// The processes that a running worker left behind: they are below it no more, because the one that started them has
// ended. While a guard exists they are children of this program. What belongs to no worker by its environment
// counts for the first one. Not what these processes started. Any thread.
std::vector<pid_t> orphans_of(pid_t worker);

// Call it when a worker, which led its own process group, has ended: kills the group. While a guard exists,
// also kills the children of this program that have the worker's folder in their environment, or that belong
// to no worker while no other worker runs. Does nothing for -1, a worker that never ran. Any thread.
void end_survivors(pid_t worker);

}  // namespace assay
