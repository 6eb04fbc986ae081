// --mode best: tries the modes and layouts of each backend once, and measures the fastest.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "harness/conductor/config/cell.hpp"
#include "harness/conductor/config/config.hpp"
#include "harness/core/paths.hpp"
#include "harness/report/report.hpp"
#include "harness/report/run_record.hpp"

namespace assay {

// Whether the trial of a cell is over: its last fork was undisturbed, or has no time.
bool is_trial_over(const CellReport& row);

// The config of the trial: one fork of each cell, unchecked. A candidate that is fast because it is wrong
// fails later, because the cells of the run itself are checked.
RunConfig trial_of(const RunConfig& config);

// The result of a trial. Borrows the cells and the report; cells and rows have the same order.
struct BestTrial {
  BestTrial(const std::vector<Cell>& cells, const Report& report);

  const std::vector<Cell>& cells;
  const Report& report;
  // The candidates of every work (all axes but mode and layout), as indices: the fastest first, those without
  // a time last.
  std::vector<std::vector<std::size_t>> works{};
};

// The tried settings of each backend, the fastest of each work first.
std::vector<BestRecord> best_of(const BestTrial& trial);

// The config with a row for every remaining cell: the fastest candidate of each work (the first one if none
// has a time), and the cells of those rows that are not candidates. Rows without the mode `best` are not
// changed.
RunConfig with_best(const RunConfig& config, const BestTrial& trial);

// The results of trials on this machine, one file for each work; several processes may use it. Ignores files
// that cannot be written or read.
class BestMemory {
 public:
  explicit BestMemory(std::filesystem::path folder = cache_folder() / "best");
  // The trial's environment names the machine. Skips works with a disturbed fork.
  void keep(const BestTrial& trial) const;
  // A setting that took less than 0.98 of the time of the row's own setting; nullopt if none is known for
  // this version of the backend and this machine.
  std::optional<BetterSetting> better(const CellReport& row, const nlohmann::json& environment) const;

 private:
  std::filesystem::path file_of(const CellReport& row, const nlohmann::json& environment) const;
  std::filesystem::path folder_;
};

}  // namespace assay
