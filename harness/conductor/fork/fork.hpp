// One fork of a cell: the check before timing, and the timed one with its verification.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>

#include "harness/conductor/backends/backend_digest.hpp"
#include "harness/conductor/check/equivalence.hpp"
#include "harness/conductor/config/cell.hpp"
#include "harness/conductor/fork/fork_context.hpp"
#include "harness/conductor/fork/fork_folders.hpp"
#include "harness/conductor/process/team.hpp"

namespace assay {

// A worker that runs several forks of its cell, with its folder.
struct ResidentWorker {
  std::unique_ptr<ForkFolders> folders;
  Team team;                    // of one
  BackendDigest backend;        // when it started
  bool examined_again = false;  // one of its later forks was examined
};

// The result of one worker and of its exam; the fork of a check has no blocks.
struct ForkOutcome {
  Fork fork;
  Equivalence verified;  // of the executable that was timed
  std::optional<protocol::Hello> hello;
  BackendDigest backend{};          // that its worker executed
  std::vector<HostRecord> hosts{};  // of ranks on several machines
};

// Whether the cell is checked in its own process before it is timed: an epoch is timed from a cold start, and
// may take hours. Otherwise its forks are checked after their timed steps.
bool is_checked_before(const Cell& cell);
// Identifies the check: cells of a run with the same subject have the same check and the same result.
std::string check_subject(const Cell& cell);
// Starts the backend of the cell and gives it the exam, without timed steps. Status ok: it passed, or no
// oracle is available. Several threads may call it at a time, each for another cell and with its own context.
ForkOutcome check_cell(const Cell& cell, const ForkContext& context);

// Round r has the seed settings.seed_of(r); every second round has the same exam. With ForkStyle::resident
// the fork uses the worker in `resident`, or starts one, and leaves it there on success; nullptr: no worker
// stays.
ForkOutcome time_cell(const Cell& cell, int round, const ForkContext& context,
                      std::optional<ResidentWorker>* resident);

}  // namespace assay
