// Starts a child process: a worker, or the launcher of several.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/core/io/file.hpp"

namespace assay {

// How a process ended, and its resource use including the children it waited for.
struct WorkerExit {
  int code = 0;
  int signal = 0;             // not 0: the signal that killed it
  std::int64_t peak_rss = 0;  // bytes
  double cpu_seconds = 0;
  bool outlasted = false;  // wait_or_kill() lost its patience, and its signal ended the process
  bool is_lost = false;    // nobody can know code and signal: somebody else has waited for it
};
// How a child of this process ended; nullopt while it runs. Does not wait.
std::optional<WorkerExit> reap(pid_t child);

// A parent's ignored SIGCHLD and its blocked signals are inherited. Then children vanish without an exit status, and
// Ctrl-C and `kill` do nothing. Call it first in main(): SIGCHLD gets its default action, and no signal is blocked. Other
// ignored signals stay ignored, such as SIGHUP under nohup.
void undo_inherited_signals();

// Both ends are 10 or above, so that a child can move them to its own descriptors, and are closed by exec(). Throws
// std::system_error.
struct Pipe {
  Descriptor read, write;
};
Pipe make_pipe();

// Descriptors are 10 or above and stay the caller's.
struct ChildStart {
  std::vector<std::string> command;                // looked up in PATH
  std::map<std::string, std::string> environment;  // next to the variables of this process that reach it
  bool (*reaches)(std::string_view variable);      // passed_variables.hpp; null: all reach it
  std::string folder;                              // its working directory
  std::vector<int> cores{};                        // empty: inherited
  int rules = -1;                                  // of Landlock; -1: not confined
  int commands = -1, events = -1;                  // become the descriptors 3 and 4; -1: it has none
  int log = -1;                                    // becomes its standard output and error
  int errors = -1;                                 // becomes its standard error instead; -1: the log does
  std::vector<std::pair<int, std::uint64_t>> limits{};  // of setrlimit(2): RLIMIT_AS, and the most
};
struct StartedChild {
  pid_t process = -1;
  int error = 0;  // not 0: exec() or a step before it failed with this errno, and the child was waited for
};

// The child leads its own process group, leaves no core file, keeps no other descriptor, has the default action for every
// signal and blocks none, and is killed when this process dies. `fork` does what fork(2) does. Throws std::system_error if there is no child.
StartedChild start_child(ChildStart start, const std::function<pid_t()>& fork);

// A descriptor that is readable when the process has ended; -1 if there is no such process.
int open_process(pid_t process);

}  // namespace assay
