// Ranks that a launcher starts: mpirun, srun or torchrun starts assay-rank for each rank, on this machine or on others.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/conductor/process/interrupts.hpp"
#include "harness/conductor/process/link.hpp"
#include "harness/conductor/process/rank_messages.hpp"
#include "harness/conductor/process/worker_process.hpp"

namespace assay {

struct LaunchPlan {
  std::string name;  // "mpirun", for texts
  // The launcher with assay-rank and its arguments, the first of which is where the ranks find this program:
  // "10.0.0.1,127.0.0.1:29400".
  std::function<std::vector<std::string>(const std::string& conductor)> command;
  std::map<std::string, std::string> environment;  // overrides that of the conductor
  std::filesystem::path folder;  // its working directory; its log goes to <folder>/launcher.log
  std::vector<int> cores{};      // its affinity, which its ranks inherit; empty: that of the conductor
  int world = 2;
};

// The name of this machine.
std::string own_host();

// One launcher and its ranks. A thread reads its log and waits for its end; then every connection to a rank is shut down.
// The launcher is started with the object, and leads its own process group. The destructor closes the connections, which
// ends the ranks, and then the launcher and what it started on this machine.
//
// assay-rank waits for the end of its connection, so that the launcher does not end the other ranks when one dies.
class Launch {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Launch(LaunchPlan plan);
  ~Launch();
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;

  // Waits until all ranks are there. Why they are not; nullopt: they are. `seconds`: of --time-limit. `deadline`: the
  // latest end of the fork.
  std::optional<WorkerEnding> gather(double seconds, std::optional<Deadline> deadline,
                                     const Interrupts* interrupts);

  // After gather().
  const RankHere& here(int rank) const;
  Link& link(int rank);  // for one thread at a time
  // The machine of a rank, by the order of their first ranks; its number there, and how many ranks it has.
  struct Seat {
    int host = 0, local = 0, neighbours = 1;
  };
  Seat seat(int rank) const;
  int hosts() const;
  // Whether a rank is on another machine than this program.
  bool is_apart() const;

  // Why a rank's connection has ended: the launcher's end, for which it waits a moment. nullopt: it runs.
  std::optional<WorkerEnding> ending();
  // The end of its log.
  std::string log_tail() const;

 private:
  class Server;
  std::unique_ptr<Server> server_;
};

}  // namespace assay
