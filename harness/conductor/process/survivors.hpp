// Nothing that a worker started outlives it, and no worker outlives this program, however either ends.
#pragma once

#include <sys/types.h>

#include <filesystem>

namespace assay {

// While one lives, what a worker leaves behind becomes a child of this program (PR_SET_CHILD_SUBREAPER), also what began a
// session of its own, and is killed when the worker has ended. A watchdog process waits for the end of this program, and
// kills what is left of its workers then. At most one at a time. Construct before there are threads.
class SurvivorGuard {
 public:
  SurvivorGuard();
  ~SurvivorGuard();
  SurvivorGuard(const SurvivorGuard&) = delete;
  SurvivorGuard& operator=(const SurvivorGuard&) = delete;
};

// The variable by which a process is known to belong to a worker; its value is the cell folder.
inline constexpr const char* folder_variable = "ASSAY_FOLDER";

// fork(), of what will be a worker with that folder in `folder_variable`. Any thread.
pid_t fork_worker(const std::filesystem::path& folder);

// A worker, which led a process group of its own, has ended: kills what it left behind. That is its group, and while a
// guard lives also children of this program that have its folder in their environment, or that belong to nobody while no
// other worker lives. Any thread.
void end_survivors(pid_t worker);

}  // namespace assay
