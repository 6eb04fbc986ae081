// The processes that a process started, as /proc lists them.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace assay {

// Adds the children of a process ("self" or its number) to `processes`, up to 4096 in all: a tree that grows while it is
// walked ends there. A process that has ended has none.
void add_children(const std::string& process, std::vector<pid_t>& processes);

}  // namespace assay
