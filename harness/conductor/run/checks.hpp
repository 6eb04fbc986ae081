// The checks of a run's cells before timing: two at a time if there are enough processors.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/conductor/config/cell.hpp"
#include "harness/conductor/fork/fork.hpp"
#include "harness/conductor/process/interrupts.hpp"
#include "harness/conductor/run/progress.hpp"
#include "harness/conductor/run/quick_budget.hpp"
#include "harness/core/text.hpp"
#include "harness/report/report.hpp"

namespace assay {

template <typename Result>
class Lanes;

// Used by one thread.
class Checks {
 public:
  // Borrowed from the run. Cells, rows and short names have the same order.
  struct Run {
    const std::vector<Cell>& cells;
    std::vector<CellReport>& rows;
    const std::vector<std::string>& names;
    ForkContext& context;
    QuickBudget& budget;
    Progress& progress;
    const Interrupts& interrupts;
    bool all = false;  // also cells that are normally checked after their timed steps: nothing is timed
  };
  // Called after a result is in its row. start: of the check, ISO 8601.
  using Made = std::function<void(std::size_t cell, const ForkOutcome& outcome, const std::string& start)>;

  Checks(Run run, Made made) : run_(run), made_(std::move(made)) {}

  // Checks the cell if the check is requested and not done. A cell takes the result of an earlier cell with
  // the same check.
  void make(std::size_t cell);
  // Checks all cells. A check that fails next to another one, maybe for lack of memory or time, is repeated
  // by itself.
  void make_all();

 private:
  // A running check.
  struct InHand {
    std::size_t cell = 0;
    std::string start = utc_now();
    std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
    bool next_to_another = false;
  };
  using Slots = std::vector<std::optional<InHand>>;

  bool wanted(std::size_t cell) const;
  bool stopped() const { return run_.interrupts.signal() != 0; }
  std::size_t lanes() const;
  const std::string& subject_of(std::size_t cell);
  bool takes_result(std::size_t cell);
  void take(const InHand& check, const ForkOutcome& outcome);

  void make_side_by_side(std::size_t lanes);
  bool fill(std::vector<std::size_t>& waiting, Slots& slots, Lanes<ForkOutcome>& lanes);
  std::optional<InHand> next(std::vector<std::size_t>& waiting, const Slots& slots);
  void show(const Slots& slots);
  void share_out(double wall, const std::vector<std::size_t>& made);

  Run run_;
  Made made_;
  std::map<std::size_t, std::string> subjects_;  // by cell, see check_subject()
  std::map<std::string, std::size_t> passed_;    // by subject: the cell that passed it
};

}  // namespace assay
