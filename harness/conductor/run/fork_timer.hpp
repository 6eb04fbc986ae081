// Times forks, also on a busy machine: a fork that would take too long, because its threads wait for processors that other
// work uses, is ended and made again with fewer threads.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>

#include "harness/conductor/config/cell.hpp"
#include "harness/conductor/fork/fork.hpp"
#include "harness/conductor/fork/fork_context.hpp"
#include "harness/conductor/run/crowding.hpp"
#include "harness/conductor/run/progress.hpp"
#include "harness/conductor/run/quick_budget.hpp"
#include "harness/report/report.hpp"

namespace assay {

// A fork that is to be timed.
struct ForkAsked {
  std::size_t cell = 0;                // its index, the same for all forks of a cell
  const CellReport* row = nullptr;     // with the cell's earlier forks
  std::string name;                    // short, of the cell
  int round = 0;                       // from 0
  std::optional<double> fair_share{};  // seconds: see Measurement::time()
};

// Borrows its arguments.
class ForkTimer {
 public:
  ForkTimer(ForkContext& context, const QuickBudget& budget, Progress& progress, std::size_t cells)
      : context_(context), budget_(budget), progress_(progress), crowding_(cells) {}

  // Lets forks have fewer threads on a busy machine. Without this call all have those of their cell.
  void allow_fewer_threads() { fewer_allowed_ = true; }
  // Times one fork; again, with fewer threads, if the first one was given up.
  ForkOutcome time(const Cell& cell, const ForkAsked& asked);
  // Why the fork that is being timed is ended; empty if it is not. A few steps do not show how long the others take.
  std::string reason_to_give_up(const protocol::Progress& progress, const RunSoFar& run);

 private:
  // With how many threads the cell's next fork runs on a busy machine; nothing if it cannot be with fewer than it has.
  std::optional<int> fewer_threads(const Cell& cell, int left_out) const;
  // Adds a warning to a fork that is far faster than a disturbed one of its cell, once for a cell. `starved`: the step of a
  // fork of the same round that was given up.
  void name_starvation(const Cell& cell, const ForkAsked& asked, Fork& fork, std::optional<double> starved);

  ForkContext& context_;
  const QuickBudget& budget_;
  Progress& progress_;
  Crowding crowding_;
  bool fewer_allowed_ = false;
  std::map<std::size_t, std::optional<ResidentWorker>> residents_;  // by cell
  std::set<std::size_t> named_;                                     // cells, by name_starvation()
  std::optional<double> patience_;      // seconds for the steps of the current fork; absent: no limit
  std::optional<double> starved_step_;  // seconds of a step of the fork that was given up
};

}  // namespace assay
