// What a Measurement is made of; internal to it. measurement.cpp decides about cells and their forks, and
// measurement_limits.cpp holds forks to the rooflines.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include "harness/conductor/backends/backend_digest.hpp"
#include "harness/conductor/fork/cell_folder.hpp"
#include "harness/conductor/fork/core_watch.hpp"
#include "harness/conductor/fork/exams.hpp"
#include "harness/conductor/fork/fork.hpp"
#include "harness/conductor/fork/published_weights.hpp"
#include "harness/conductor/fork/replays.hpp"
#include "harness/conductor/run/cell_report.hpp"
#include "harness/conductor/run/checks.hpp"
#include "harness/conductor/run/fork_timer.hpp"
#include "harness/conductor/run/measurement.hpp"
#include "harness/conductor/run/progress.hpp"
#include "harness/conductor/run/quick_budget.hpp"
#include "harness/conductor/run/roofline.hpp"
#include "harness/conductor/run/run_report.hpp"
#include "harness/core/io/scratch_root.hpp"
#include "harness/report/environment_difference.hpp"

namespace assay {

struct Measurement::Parts {
  Parts(const RunRequest& request, Expansion cells, const Registries& registries, Progress& progress,
        const Interrupts& interrupts);

  bool stopped() const { return interrupts_.signal() != 0; }
  // The minimum number of forks of a complete cell.
  int planned_forks() const;
  bool only_plans() const { return !request_.check_only && planned_forks() == 0; }
  // Gives each skipped cell its reason; a fork that was cut off already has one.
  bool out_of_budget();
  // Whether --max-time ended before the forks of a cell.
  bool out_of_time() const;
  void begin();
  // A missing data set gets rows with that status; a damaged one is bad input and ends the run before it
  // begins.
  void prepare_data();
  // The conductor avoids the processors of the cell with the most threads, if the machine has more.
  std::vector<int> busiest_cores() const;
  bool wanted(const PlannedFork& fork) const;
  // Checks puts the result of a check into its row; this function handles its effects on the run.
  void take_check(std::size_t index, const ForkOutcome& outcome, const std::string& start);
  // If a device is unavailable for one cell of a backend, skips that backend's other cells on it. (Missing
  // data sets were handled before.)
  void take_unavailable(std::size_t index, Status status, const std::string& reason);
  // Once for all cells of a device, precision and thread count that are still to be timed.
  void measure_rooflines(const std::vector<PlannedFork>& forks);
  void draw_rooflines();
  // A cell above the roofline is wrong, or the roofline is too low: measures it again before it flags the
  // cell.
  void hold_to_rooflines(const Cell& cell, const CellReport& row, Fork& fork);
  // The run is over: keeps only what a reader must know of a cell that has no other fork.
  bool drops(const CellReport& row, const Fork& fork) const {
    return fork.reason_code == ReasonCode::max_time_spent && !row.forks.empty();
  }
  void time(const PlannedFork& planned, std::optional<double> fair_share);
  void compare_losses(const PlannedFork& planned);
  // A cell that draws masks, or has its own initial values or order of batches, has a different loss.
  bool trains_alike(std::size_t index);
  // Forks with different libraries must not share a row, because their median and interval would mix them.
  void reject_other_libraries(const CellReport& row, ForkOutcome& outcome) const;
  // The same of the backend's own files; cells of one backend are compared with each other, so it holds for all of them.
  void reject_other_backend(const Cell& cell, ForkOutcome& outcome);
  // What is usual, and so which forks of the group are disturbed, follows from all of them.
  void resolve_group(std::size_t index);
  void resolve(std::size_t index) {
    if (!cells_[index].runnable()) return;
    CellReport& row = report().cells[index];
    if (only_plans() && row.forks.empty()) return resolve_as_plan(row, cells_[index]);
    resolve_status(row, cells_[index], settings_, planned_forks());
  }
  Report finish(bool cut_short);
  Report& report() { return written_.report(); }
  const Report& report() const { return written_.report(); }

  const RunRequest& request_;
  Progress& progress_;
  const Interrupts& interrupts_;
  RunSettings settings_;
  Expansion expansion_;
  std::vector<Cell>& cells_;
  std::optional<PublishedWeights> weights_;
  CellGroups groups_;  // cells that are compared with each other
  ScratchRoot scratch_;
  DatasetShelf data_;
  QuickBudget budget_;
  Exams exams_;
  Replays replays_;
  CoreWatch cores_{{.pause = [this](CoreWatch::Seconds time) {
    std::this_thread::sleep_for(time);
    return !stopped();
  }}};
  ForkContext context_;
  Rooflines rooflines_;
  RunReport written_;
  ForkTimer timer_;
  std::vector<std::string> names_;                 // short names of the cells
  std::map<std::string, BackendDigest> backends_;  // by name, when a worker of it was first started
  std::map<std::size_t, bool> draws_;              // by cell: whether it has a dropout
  Checks checks_;
};

}  // namespace assay
