// What a process does between fork() and exec() to become a worker.
#pragma once

#include <sched.h>
#include <sys/resource.h>
#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace assay {

// How a process ended, and its resource use including the children it waited for.
struct WorkerExit {
  int code = 0;
  int signal = 0;             // not 0: the signal that killed it
  std::int64_t peak_rss = 0;  // bytes
  double cpu_seconds = 0;
  bool outlasted = false;  // wait_or_kill() lost its patience, and its signal ended the process
};
// Of the results of wait4(2).
WorkerExit exit_of(int status, const rusage& usage);

// Confines this process and its children permanently to a Landlock rule set; async-signal-safe. -1: no rules.
// False with errno set if the kernel refuses.
bool confine_by(int rules);

// The environment of this process with added variables, and the pointers that exec() takes.
std::vector<std::string> environment_with(const std::map<std::string, std::string>& added);
std::vector<char*> pointers_to(std::vector<std::string>& texts);

// Data for the child, made before fork(): between fork and exec only async-signal-safe calls are allowed.
// Descriptors are 10 or above, so that the child's own do not replace them.
struct ChildPlan {
  char* const* arguments;
  char* const* environment;
  const char* folder;      // its working directory
  const cpu_set_t* cores;  // null: inherited
  int rules;               // confine_by()
  int commands, events;    // become the descriptors 3 and 4; -1: it has none
  int log, failure;        // standard output and error; gets errno if exec() fails
  pid_t parent;            // it is killed when this process dies
};

// The child leads its own process group, leaves no core file, and keeps no other descriptor.
[[noreturn]] void run_child(const ChildPlan& plan);

// A descriptor that is readable when the process has ended; -1 if there is no such process.
int open_process(pid_t process);

}  // namespace assay
