// Talks with the workers of a cell's ranks at the same time.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/conductor/process/conversation.hpp"
#include "harness/conductor/process/launch.hpp"
#include "harness/core/io/file.hpp"

namespace assay {

// The workers of a cell, one for each rank. Used by one thread. The workers of several ranks have a thread each, which
// lives as long as the worker; a single worker has none. The destructor ends all of them.
class Team {
 public:
  // Does not start the workers. Only rank 0 reports its progress to `watch`.
  // `launch`: what started the ranks, which are there (Launch::gather()); null: this process starts the workers.
  Team(std::vector<ConversationPlan> plans, const ConversationWatch& watch,
       std::unique_ptr<Launch> launch = nullptr);
  ~Team();
  Team(Team&&) noexcept;
  Team& operator=(Team&&) noexcept;

  // Worker::converse() with all workers at the same time; one result for each rank. No worker quits before all have
  // answered. If one fails, the others usually fail because of it: they get a moment to do so, and are then ended with
  // the code other_rank_failed.
  std::vector<ConversationResult> converse(const std::vector<protocol::Command>& commands,
                                           Afterwards afterwards, std::optional<Deadline> deadline);

 private:
  class Threads;
  std::unique_ptr<Worker> alone_;  // of a cell with one rank
  std::unique_ptr<Threads> threads_;
};

// Where ranks find each other. While `kept` is open, the kernel gives the port to nobody who asks for any port; a
// server that asks for this one gets it if it sets SO_REUSEADDR, as servers do.
struct Rendezvous {
  std::string place;  // "127.0.0.1:29400"
  Descriptor kept;
};

// A free port at the IPv4 address. If this process does not have the address, such as in another network namespace, the port
// is only likely to be free there. Throws std::system_error.
Rendezvous free_rendezvous(const std::string& address);

// The ranks' results as that of one worker: the status, reason and log are those of the rank that failed first. A rank
// that died takes precedence over one that reported an error, which is usually about the death. The reason names the
// rank, and then the others that failed by themselves. If several gave no answer, a stopped one comes first, and the
// log has the ends of all their logs. Times are the longest, bytes are sums (except installed_size, the
// largest), samples are summed by their order, and the other messages are those of rank 0.
ConversationResult joined(const std::vector<ConversationResult>& ranks);

}  // namespace assay
