// --mode best: each backend's modes and layouts are tried once, and the fastest is measured.
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

// Whether others used the processors while it was timed.
bool was_disturbed(const Fork& fork);
// Whether the trial of a cell is over: its last fork was undisturbed, or gave no time.
bool is_settled(const CellReport& row);

// The config of the trial: one fork of each cell, unchecked. What is fast because it is wrong is found out in the run
// proper, whose cells are checked.
RunConfig trial_of(const RunConfig& config);

// What a trial found. Borrows the cells and the report, whose rows are in one order.
struct BestTrial {
  BestTrial(const std::vector<Cell>& cells, const Report& report);

  const std::vector<Cell>& cells;
  const Report& report;
  // The candidates of every work (all axes but mode and layout), as indices: the fastest first, those that gave no time
  // last.
  std::vector<std::vector<std::size_t>> works{};
};

// The settings of each backend that were tried, the fastest of each work first.
std::vector<BestRecord> best_of(const BestTrial& trial);

// The config with a row for every cell that is left: the fastest candidate of each work, or where none gave a time the
// first, and the cells of those rows that were no candidates. Rows that asked for no best mode stay as they are.
RunConfig with_best(const RunConfig& config, const BestTrial& trial);

// What trials on this machine found, a file for each work; several processes may use it. What cannot be written or read
// is not known.
class BestMemory {
 public:
  explicit BestMemory(std::filesystem::path folder = cache_folder() / "best");
  // The trial's environment names the machine. Works in which others disturbed a fork are left out.
  void keep(const BestTrial& trial) const;
  // A setting that took less than 0.98 of the time of the row's own. Nothing where none is known for this backend's
  // version and this machine.
  std::optional<BetterSetting> better(const CellReport& row, const nlohmann::json& environment) const;

 private:
  std::filesystem::path file_of(const CellReport& row, const nlohmann::json& environment) const;
  std::filesystem::path folder_;
};

}  // namespace assay
