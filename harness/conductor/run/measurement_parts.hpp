// What a Measurement is made of; internal to it. measurement.cpp times the forks, measurement_report.cpp begins the report,
// measurement_limits.cpp holds forks to the rooflines, and measurement_busy.cpp handles a busy machine.
#pragma once

#include <map>
#include <optional>
#include <set>
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
#include "harness/conductor/run/crowding.hpp"
#include "harness/conductor/run/measurement.hpp"
#include "harness/conductor/run/progress.hpp"
#include "harness/conductor/run/quick_budget.hpp"
#include "harness/conductor/run/resume.hpp"
#include "harness/conductor/run/roofline.hpp"
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
  void prepare_report();
  void take_earlier_cells();
  // Whether another machine has measured the cell, for a merged report that is resumed.
  bool is_elsewhere(std::size_t cell) const {
    return resumed_ && resumed_->of(cell).place == ResumedPlace::elsewhere;
  }
  // The part of the report about this machine.
  nlohmann::json& this_machine() {
    return report_.environments.empty() ? report_.environment : report_.environments.back();
  }
  // Adds this start of the program to those of the earlier report.
  void note_session();
  // Sets the time, the place in the order of the run and the session of the fork.
  void stamp(Fork& fork, std::string start);
  // A missing data set gets rows with that status; a damaged one is bad input and ends the run before it
  // begins.
  void prepare_data();
  // Once for each data set and shape.
  void note_dataset(std::size_t cell, const PreparedDataset& data);
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
  // A cell above the roofline is wrong, or the roofline is too low: measures it again before judging the
  // cell.
  void hold_to_rooflines(const Cell& cell, const CellReport& row, Fork& fork);
  // With how many threads the cell's next fork runs on a busy machine; nothing if it cannot be with fewer than it has.
  std::optional<int> fewer_threads(const Cell& cell, int left_out) const;
  // Why a fork is ended: see Measurement::time(). A few steps do not show how long the others take.
  std::string reason_to_give_up(const protocol::Progress& progress, const RunSoFar& run);
  // Times one fork; again, with fewer threads, if the first one was given up.
  ForkOutcome attempt(const PlannedFork& planned, std::optional<double> fair_share);
  // Adds a warning to a fork that is far faster than a disturbed one of its cell, once for a cell. `starved`: the step of a
  // fork of the same round that was given up.
  void name_starvation(std::size_t index, Fork& fork, std::optional<double> starved, int round);
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
    CellReport& row = report_.cells[index];
    if (only_plans() && row.forks.empty()) return resolve_as_plan(row, cells_[index]);
    resolve_status(row, cells_[index], settings_, planned_forks());
  }
  // A full disk may have space later; only the last save must succeed.
  void save();
  Report finish(bool cut_short);

  const RunRequest& request_;
  Progress& progress_;
  const Interrupts& interrupts_;
  RunSettings settings_;
  Expansion expansion_;
  std::vector<Cell>& cells_;
  std::optional<PublishedWeights> weights_;
  CellGroups groups_;  // cells that are compared with each other
  std::optional<ResumedCells> resumed_;
  Journal journal_;
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
  Report report_;
  std::map<std::size_t, std::optional<ResidentWorker>> residents_;  // by cell
  std::vector<std::string> names_;                                  // short names of the cells
  std::map<std::string, BackendDigest> backends_;  // by name, when a worker of it was first started
  std::map<std::size_t, bool> draws_;              // by cell: whether it has a dropout
  std::set<std::size_t> named_;                    // cells, by name_starvation()
  Crowding crowding_{cells_.size()};
  bool fewer_allowed_ = false;
  std::optional<double> patience_;      // seconds for the steps of the current fork; absent: no limit
  std::optional<double> starved_step_;  // seconds of a step of the fork that was given up
  int session_ = 0;
  int next_order_ = 0;
  Checks checks_;
};

}  // namespace assay
