// One report in the making: its cells are checked and timed one by one, in whatever order the caller likes.
#pragma once

#include <memory>
#include <vector>

#include "harness/conductor/backends/backends.hpp"
#include "harness/conductor/config/cell.hpp"
#include "harness/conductor/config/matrix.hpp"
#include "harness/conductor/process/interrupts.hpp"
#include "harness/conductor/run/progress.hpp"
#include "harness/conductor/run/rounds.hpp"
#include "harness/conductor/run/run.hpp"
#include "harness/report/report.hpp"

namespace assay {

// Borrows everything it is made of. The report on disk follows after every check and fork.
class Measurement {
 public:
  // Throws ConfigError or IoError for what is wrong before anything has run: the config, the place of the
  // report, an earlier report of another config.
  Measurement(const RunRequest& request, const BackendRegistry& registry, Progress& progress,
              const Interrupts& interrupts);
  ~Measurement();
  Measurement(const Measurement&) = delete;
  Measurement& operator=(const Measurement&) = delete;

  const std::vector<Cell>& cells() const;
  const RunSettings& settings() const;
  const Report& report() const;

  // The report's head and the data sets; once, before what follows. A set that is missing makes rows, one
  // that is damaged throws IoError.
  void prepare();
  // How many forks a cell has when it is whole; the config's --forks until this is called.
  void plan(int forks);
  // Against the oracle, where it is asked for and was not done.
  void check(std::size_t cell);
  // All cells, two side by side where there are processors for it: nothing is timed in a check. One that fails beside
  // another is made again alone.
  void check_all();
  // Once for all cells of a device, precision and thread count that are still to be timed.
  void measure_rooflines(const std::vector<PlannedFork>& forks);
  // Whether it can be run, has not failed for good, and has no fork of that round.
  bool wanted(const PlannedFork& fork) const;
  void time(const PlannedFork& fork);

  // The last word on every cell; writes the report for the last time. `cut_short`: not all that was planned
  // was reached.
  Report finish(bool cut_short);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace assay
