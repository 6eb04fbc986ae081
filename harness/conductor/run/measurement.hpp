// Makes one report: checks and times its cells one by one, in the order of the caller.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include "harness/conductor/config/cell.hpp"
#include "harness/conductor/config/matrix.hpp"
#include "harness/conductor/config/registries.hpp"
#include "harness/conductor/config/run_settings.hpp"
#include "harness/conductor/process/interrupts.hpp"
#include "harness/conductor/run/progress.hpp"
#include "harness/conductor/run/rounds.hpp"
#include "harness/conductor/run/run.hpp"
#include "harness/report/report.hpp"

namespace assay {

// Borrows its arguments but the cells. Writes the report after every check and fork.
class Measurement {
 public:
  // `cells`: those of the request. Throws ConfigError or IoError for errors in the path of the report, or the earlier
  // report (another config).
  Measurement(const RunRequest& request, Expansion cells, const Registries& registries, Progress& progress,
              const Interrupts& interrupts);
  ~Measurement();
  Measurement(const Measurement&) = delete;
  Measurement& operator=(const Measurement&) = delete;

  const std::vector<Cell>& cells() const;
  const RunSettings& settings() const;
  const Report& report() const;

  // Fills the head of the report and the data sets; call it once, before the functions below. A missing data
  // set gets rows with that status; a damaged one throws IoError.
  void prepare();
  // Sets the number of forks of a complete cell; before this call it is --forks.
  void plan(int forks);
  // Checks the cell with the oracle, if the check is requested and not done.
  void check(std::size_t cell);
  // Checks all cells, two at a time if there are enough processors, because nothing is timed in a check. A
  // check that fails next to another one is repeated by itself.
  void check_all();
  // Measures the rooflines once for all cells of a device, precision and thread count that are still to be
  // timed.
  void measure_rooflines(const std::vector<PlannedFork>& forks);
  // Whether the cell can be run, has not failed permanently, and has no fork of that round.
  bool wanted(const PlannedFork& fork) const;
  // fair_share: seconds. If the fork would take longer because its threads wait for processors that other work uses, it is
  // ended and made again with fewer threads (see Crowding).
  void time(const PlannedFork& fork, std::optional<double> fair_share = {});

  // Ends what is not done by then. A first fork that is cut off is a row of its cell, `max_time_spent`; a later one is
  // dropped.
  void end_at(std::chrono::steady_clock::time_point end);
  // Lets forks have fewer threads on a busy machine. Without this call all have those of their cell.
  void allow_fewer_threads();

  // How --until clear ended for each group.
  void note_ends(const std::vector<GroupEnd>& ends);

  // Sets the final status of every cell and writes the report for the last time. `cut_short`: the run did not
  // reach everything that was planned.
  Report finish(bool cut_short);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace assay
