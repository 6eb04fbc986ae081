// The report of a run while it is made: its head, the rows that an earlier report gives, and its file.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "harness/conductor/config/cell.hpp"
#include "harness/conductor/config/matrix.hpp"
#include "harness/conductor/config/run_settings.hpp"
#include "harness/conductor/data/dataset.hpp"
#include "harness/conductor/run/progress.hpp"
#include "harness/conductor/run/resume.hpp"
#include "harness/conductor/run/run.hpp"
#include "harness/report/report.hpp"
#include "harness/report/run_record.hpp"

namespace assay {

// Borrows its arguments.
class RunReport {
 public:
  // Throws IoError for errors in the path of the report.
  RunReport(const RunRequest& request, const RunSettings& settings, Expansion& expansion, Progress& progress);

  // Keeps the cells of the earlier report that this machine continues, or that another one has measured. Throws
  // ConfigError: see ResumedCells. Precondition: request.resume.
  void resume(const CellGroups& groups, int forks);
  // Fills the head and a row for each cell. `weights`: the file of --weights.
  void begin(const BackendRegistry& backends, const std::optional<FileDigest>& weights);

  Report& report() { return report_; }
  const Report& report() const { return report_; }
  // Whether another machine has measured the cell, for a merged report that is resumed.
  bool is_elsewhere(std::size_t cell) const {
    return resumed_ && resumed_->of(cell).place == ResumedPlace::elsewhere;
  }
  // The part of the report about this machine.
  MachineRecord& this_machine() {
    return report_.environments.empty() ? report_.environment : report_.environments.back();
  }
  // Sets the time, the place in the order of the run and the session of the fork.
  void stamp(Fork& fork, std::string start);
  // Once for each data set and shape. Throws ConfigError if forks that are kept read other data.
  void note_dataset(std::size_t cell, const PreparedDataset& data);
  // A full disk may have space later; only the last save must succeed.
  void save();
  Report finish();

 private:
  void take_earlier_cells();
  // Adds this start of the program to those of the earlier report.
  void note_session();

  const RunRequest& request_;
  const RunSettings& settings_;
  Expansion& expansion_;
  Progress& progress_;
  Journal journal_;
  std::optional<ResumedCells> resumed_{};
  Report report_{};
  int session_ = 0;
  int next_order_ = 0;
};

}  // namespace assay
