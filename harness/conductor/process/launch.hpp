// Ranks that a launcher starts: mpirun, srun or torchrun starts assay-rank for each rank, which starts the worker that
// the conductor names.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/launch/messages.hpp"
#include "harness/report/status.hpp"

namespace assay {

// Why a conversation with a worker ended too early.
struct WorkerEnding {
  ReasonCode code = ReasonCode::worker_exited;
  std::string reason;
};

struct LaunchPlan {
  std::string name;                                // "mpirun", for texts
  std::vector<std::string> command;                // with assay-rank and its arguments
  std::map<std::string, std::string> environment;  // overrides that of the conductor
  std::filesystem::path folder;  // its working directory; its log goes to <folder>/launcher.log
  std::filesystem::path socket;  // at which assay-rank connects; in a folder that exists
  int world = 2;
};

// One launcher and its ranks, on this machine. A thread serves them; all functions may be called by any thread and do
// not wait. The launcher is started with the object, and leads its own process group. The destructor ends the launcher
// and what it started.
//
// assay-rank reports the end of its worker and then waits until all ranks have ended, so that the launcher does not end
// the other ranks when one dies. If the launcher itself ends, every rank is ended.
class Launch {
 public:
  explicit Launch(LaunchPlan plan);
  ~Launch();
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;

  // The worker of a rank. It is started when the rank is there. Its end of the descriptors is closed here when it has
  // them, or when the rank will never be there.
  void offer(int rank, launch::RankOrders orders);

  pid_t process(int rank) const;                    // of the worker; -1: not started yet
  std::optional<WorkerExit> ended(int rank) const;  // nullopt: it runs, or may still be started
  // Why it was not started, or ended because of the launcher; nullopt otherwise.
  std::optional<WorkerEnding> failure(int rank) const;
  // Why its worker was not started yet, with the last line of the launcher's log; empty if it was, or never will be.
  std::string absence(int rank) const;
  // Sends a signal to the worker's process group. A worker that was not started yet never will be.
  void signal(int rank, int number);
  // The number of machines that the ranks are on.
  int nodes() const;

 private:
  class Server;
  std::unique_ptr<Server> server_;
};

}  // namespace assay
