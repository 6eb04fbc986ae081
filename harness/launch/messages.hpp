// What the conductor and assay-rank tell each other over a Unix socket that keeps the bounds of messages. assay-rank
// is what a launcher such as mpirun starts for each rank: it starts the worker, and reports how it ended.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "harness/core/io/file.hpp"
#include "harness/launch/child.hpp"

namespace assay::launch {

// From assay-rank, in this order. It then waits for the end of the connection before it exits, so that the launcher
// learns of the end of a rank only when the conductor allows it.
struct RankHere {
  int rank = 0;
  std::string host;  // of its machine
};
struct WorkerStarted {
  int process = 0;
};
struct WorkerNotStarted {
  int error = 0;  // errno
};
struct WorkerEnded {
  WorkerExit exit;
};

// The answer to RankHere: the worker, with its descriptors.
struct RankOrders {
  std::vector<std::string> command;
  std::string folder;
  std::vector<int> cores;                          // empty: inherited
  std::map<std::string, std::string> environment;  // overrides that of assay-rank
  Descriptor commands, events, log;
  Descriptor rules{};  // of Landlock; none: not confined
};

using Report = std::variant<RankHere, WorkerStarted, WorkerNotStarted, WorkerEnded>;

// False, with errno, if the other end is gone (EPIPE, ECONNRESET), the message is too long (EMSGSIZE), or a text is not
// UTF-8 (EILSEQ).
bool send(int socket, const Report& report);
bool send(int socket, const RankOrders& orders);
// Waits for a message. nullopt: the other end is gone, or sent something else.
std::optional<Report> receive_report(int socket);
std::optional<RankOrders> receive_orders(int socket);

// A listening socket, and a connection to it. Throw std::system_error, also if the path is too long for a socket.
Descriptor listen_at(const std::filesystem::path& path);
Descriptor connect_to(const std::filesystem::path& path);

}  // namespace assay::launch
