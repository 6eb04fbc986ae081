// One worker as a child process: started with its descriptors, bounded, watched and ended for sure. Why a worker
// ended too early, from what it left behind.
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
#include "harness/protocol/channel.hpp"
#include "harness/report/report.hpp"

namespace assay {

struct WorkerStart {
  std::vector<std::string> command;   // program and arguments; the cell folder becomes the last one
  std::filesystem::path cell_folder;  // its working directory; its log goes to <cell_folder>/log
  std::vector<int> cores;             // affinity; empty: inherited
  std::map<std::string, std::string> environment;  // over that of the conductor
  Confinement confinement{};
};

// How a process ended and what it used, itself and the children it waited for.
struct WorkerExit {
  int code = 0;
  int signal = 0;             // not 0: it died of this
  std::int64_t peak_rss = 0;  // bytes
  double cpu_seconds = 0;
};
// "exited with code 3", "died of SIGSEGV (Segmentation fault)"
std::string to_string(const WorkerExit& exit);

// The worker leads a process group of its own, gets SIGKILL when the conductor dies, leaves no core file, and
// is gone, with its group, when this object is. Construct and use from one thread, the one that lives as long
// as the worker.
class WorkerProcess {
 public:
  // Throws std::system_error when it cannot be started; code ENOENT or EACCES: the program is not there.
  explicit WorkerProcess(const WorkerStart& start);
  ~WorkerProcess();
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  pid_t pid() const { return pid_; }
  protocol::Channel& channel() { return *channel_; }
  WorkerLog& log() { return *log_; }

  // Without waiting; nothing while it runs. The same answer ever after.
  std::optional<WorkerExit> ended();
  // Waits until it has ended by itself, keeping its log drained; SIGTERM to the group at the end of
  // `patience`, SIGKILL a second later.
  WorkerExit wait_or_kill(std::chrono::milliseconds patience);

 private:
  pid_t pid_ = -1;
  std::unique_ptr<protocol::Channel> channel_;
  std::unique_ptr<WorkerLog> log_;
  std::optional<WorkerExit> exit_;
};

// How a conversation with a worker ended before its time.
struct WorkerEnding {
  ReasonCode code = ReasonCode::worker_exited;
  std::string reason;
};

// How often the kernel's out-of-memory killer has struck since boot; 0 where it cannot be read.
std::int64_t oom_kills();

// `doing`: "before hello", "during compile". `log`: the end of what it printed. `oom_struck`: the killer
// struck meanwhile.
WorkerEnding explain_death(const WorkerExit& exit, std::string_view doing, std::string_view log,
                           bool oom_struck);

}  // namespace assay
