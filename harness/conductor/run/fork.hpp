// One fork of a cell: the check before timing, and the timed one with its verification.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>

#include "harness/conductor/config/matrix.hpp"
#include "harness/conductor/process/conversation.hpp"
#include "harness/conductor/run/cell_folder.hpp"

namespace assay {

// A folder of this process that goes when this does.
class Scratch {
 public:
  // keep: it stays, for those who look for a fault.
  Scratch(std::filesystem::path path, bool keep);
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  bool keep_;
};

// A worker that stays for the later forks of its cell, with its folder.
struct ResidentWorker {
  std::unique_ptr<Scratch> folder;
  Worker worker;
};

// What all forks of a run share. Borrows everything.
struct ForkContext {
  std::filesystem::path scratch;  // cell folders are made in it and removed after the fork
  const BackendRegistry& registry;
  const RunSettings& settings;
  DatasetShelf& data;
  ConversationWatch watch;
  bool keep_folders = false;
  // When the conversations of a fork must be over; absent: their phases have limits alone.
  std::optional<std::chrono::steady_clock::time_point> deadline{};
  int lane = 0;  // of checks side by side, from 0
  // Held while the oracle answers: of two cells of one program the second finds the answers of the first.
  std::shared_ptr<std::mutex> oracle = std::make_shared<std::mutex>();
};

struct CheckOutcome {
  Status status = Status::failed;  // ok: the check ran and passed, or there is no oracle to ask
  std::string reason;
  std::string log_tail;
  Equivalence equivalence;
  std::optional<protocol::Hello> hello;
  TimeSpent spent;
};
// What the check before timing depends on: two cells of a run with one subject would be asked and judged alike.
std::string check_subject(const Cell& cell, const Program& program);
// Starts the cell's backend to answer the check and the oracle where its answers are not cached. Several threads may
// call it at a time, each for another cell and with a context of its own.
CheckOutcome check_cell(const Cell& cell, const Program& program, const ForkContext& context);

struct TimedOutcome {
  Fork fork;
  Equivalence verified;  // of the executable that was timed
  std::optional<protocol::Hello> hello;
};
// Round r has the seed settings.seed + r. `verify`: compare with the oracle afterwards. With ForkStyle::resident the
// fork uses the worker that `resident` holds, or starts one, and leaves it there if all went well; nullptr: no worker
// stays.
TimedOutcome time_cell(const Cell& cell, int round, bool verify, const ForkContext& context,
                       std::optional<ResidentWorker>* resident);

// The tensors of both, the worse of two verdicts where one name stands twice.
Equivalence merged(const Equivalence& a, const Equivalence& b);

}  // namespace assay
