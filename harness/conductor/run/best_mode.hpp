// --mode best: the result of the search among the modes and layouts of each backend, and its memory.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "harness/conductor/config/cell.hpp"
#include "harness/conductor/config/config.hpp"
#include "harness/conductor/store/machine_store.hpp"
#include "harness/report/report.hpp"
#include "harness/report/run_record.hpp"

namespace assay {

// The config of the search: fresh forks, checked as those of the run, so that a candidate that is fast because it is
// wrong is not chosen.
RunConfig trial_of(const RunConfig& config);

// The result of a trial. Borrows the cells and the report; cells and rows have the same order.
struct BestTrial {
  BestTrial(const std::vector<Cell>& cells, const Report& report);

  const std::vector<Cell>& cells;
  const Report& report;
  // The candidates of every work, as indices: the chosen one first, those that cannot be chosen last.
  std::vector<std::vector<std::size_t>> works{};
};

// The tried settings of each backend, the chosen one of each work first.
std::vector<BestRecord> best_of(const BestTrial& trial);

// The config with a row for every remaining cell: the chosen candidate of each work (the first one if none
// can be chosen), and the cells of those rows that are not candidates. Rows without the mode `best` are not
// changed.
RunConfig with_best(const RunConfig& config, const BestTrial& trial);

// The results of trials on this machine, by work.
class BestMemory {
 public:
  explicit BestMemory(MachineStore store = MachineStore::in_cache("best")) : store_(std::move(store)) {}
  // The trial's environment names the machine. Skips works without an interval.
  void keep(const BestTrial& trial) const;
  // The chosen setting, if the interval shows that it is faster than the row's own; nullopt also if nothing is
  // known for this version of the backend and this machine.
  std::optional<BetterSetting> better(const CellReport& row, const MachineRecord& machine) const;

 private:
  MachineStore store_;
};

}  // namespace assay
