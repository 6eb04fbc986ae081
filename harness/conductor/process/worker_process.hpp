// One worker as a child process: starts it with its descriptors, limits it, watches it and always ends it.
// Explains why a worker ended too early.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/conductor/process/confinement.hpp"
#include "harness/conductor/process/worker_log.hpp"
#include "harness/launch/child.hpp"
#include "harness/protocol/channel.hpp"
#include "harness/report/report.hpp"

namespace assay {

struct WorkerStart {
  std::vector<std::string> command;   // program and arguments; the cell folder becomes the last one
  std::filesystem::path cell_folder;  // its working directory; its log goes to <cell_folder>/log
  std::vector<int> cores;             // affinity; empty: inherited
  // In addition to the variables of the conductor that reaches_worker() lets through, and above them.
  std::map<std::string, std::string> environment;
  Confinement confinement{};
  std::vector<std::filesystem::path> folders{};  // made before it starts: its caches, and for temporary files
  bool launched = false;  // this process was started by a launcher, whose variables also reach the worker
};

// Why a conversation with a worker ended too early.
struct WorkerEnding {
  ReasonCode code = ReasonCode::worker_exited;
  std::string reason;
};

// "exited with code 3", "died of SIGSEGV (Segmentation fault)"
std::string to_string(const WorkerExit& exit);

// The worker leads its own process group, gets SIGKILL if this process dies, and leaves no core file. The destructor ends
// it and its group. Construct and use it from one thread, which must live as long as the worker.
class WorkerProcess {
 public:
  // Throws std::system_error if it cannot be started; code ENOENT or EACCES: the program is missing or not
  // executable.
  explicit WorkerProcess(const WorkerStart& start);
  ~WorkerProcess();
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  pid_t pid() const { return pid_; }
  protocol::Channel& channel() { return *channel_; }
  WorkerLog& log() { return *log_; }

  // Readable when it has ended; -1 if the kernel gives none.
  int ending_descriptor() const { return ending_.get(); }
  // Does not wait; nullopt while the worker runs. The result does not change afterwards.
  std::optional<WorkerExit> ended();
  // Waits until it has ended by itself, and drains its log. Sends SIGTERM to the group after `patience`, and
  // SIGKILL a second later.
  WorkerExit wait_or_kill(std::chrono::milliseconds patience);
  // To its process group.
  void signal(int number);
  // Lets a worker that can do so print where each of its threads is, on SIGUSR1; waits for it, for 0.5 s at most.
  void print_stacks();

 private:
  pid_t pid_ = -1;
  Descriptor ending_;  // until it has ended
  std::unique_ptr<protocol::Channel> channel_;
  std::unique_ptr<WorkerLog> log_;
  std::optional<WorkerExit> exit_;
};

// The last line that is not blank: most runtimes print the cause there.
std::string last_line_of(std::string_view log);

// Whether a text, of a log or of an error, says that no process or thread could be started.
bool speaks_of_process_limit(std::string_view text);

// Number of kills by the kernel's out-of-memory killer since boot; 0 if it cannot be read.
std::int64_t oom_kills();

// `doing`: "before hello", "during compile". `log`: the end of its output. `oom_struck`: the out-of-memory
// killer was active at that time. Compares its CPU time with this program's limit (RLIMIT_CPU), which it inherited.
WorkerEnding explain_death(const WorkerExit& exit, std::string_view doing, std::string_view log,
                           bool oom_struck);

}  // namespace assay
