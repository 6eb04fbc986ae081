// One fork of a cell: the check before timing, and the timed one with its verification.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>

#include "harness/conductor/check/equivalence.hpp"
#include "harness/conductor/config/cell.hpp"
#include "harness/conductor/process/conversation.hpp"
#include "harness/conductor/run/fork_context.hpp"

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

// What one worker did, and what its exam says of it; of a check the fork has no blocks.
struct ForkOutcome {
  Fork fork;
  Equivalence verified;  // of the executable that was timed
  std::optional<protocol::Hello> hello;
};

// Whether the cell is checked in a process of its own before it is timed: an epoch is timed from a cold start, and may
// take hours. Otherwise its forks are, behind their timed steps.
bool is_checked_before(const Cell& cell);
// What that check depends on: two cells of a run with one subject would be asked and judged alike.
std::string check_subject(const Cell& cell, const Program& program);
// Starts the cell's backend to sit the exam without timed steps. Status ok: it passed, or there is no oracle to ask.
// Several threads may call it at a time, each for another cell and with a context of its own.
ForkOutcome check_cell(const Cell& cell, const Program& program, const ForkContext& context);

// Round r has the seed settings.seed_of(r), and every second round the same exam. With ForkStyle::resident the fork uses
// the worker that `resident` holds, or starts one, and leaves it there if all went well; nullptr: no worker stays.
ForkOutcome time_cell(const Cell& cell, int round, const ForkContext& context,
                      std::optional<ResidentWorker>* resident);

// The tensors of both, the worse of two verdicts where one name stands twice.
Equivalence merged(const Equivalence& a, const Equivalence& b);

}  // namespace assay
