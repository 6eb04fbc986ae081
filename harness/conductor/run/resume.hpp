// Whether an earlier report may be continued (--resume), and which of its cells this machine may measure.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/conductor/config/cell.hpp"
#include "harness/conductor/run/run.hpp"
#include "harness/report/report.hpp"
#include "harness/report/run_record.hpp"

namespace assay {

// The indices of the cells that are compared with each other, by the name of their group.
using CellGroups = std::map<std::string, std::vector<std::size_t>>;

// Throws ConfigError if the earlier report is of another config, shard or build. Precondition: request.resume.
void reject_other_run(const RunRequest& request);

enum class ResumedPlace {
  anew,       // nothing of its group was measured yet: this machine begins
  continued,  // this machine keeps the forks of the earlier report and adds the missing ones
  elsewhere,  // measured on another machine, and complete: its row stays as it is
};

struct ResumedCell {
  ResumedPlace place = ResumedPlace::anew;
  const CellReport* earlier = nullptr;  // its row in the earlier report; nullptr: none
  std::optional<int> environment{};     // for a merged report: index into the environments of the new report
};

// Where the cells of an earlier report are measured. A comparison group stays on the machine that began it,
// because only cells of one machine are paired. The report of a single machine is continued on that machine;
// a merged report gets this machine as a further one, for the groups that have no forks. Borrows the earlier
// report.
class ResumedCells {
 public:
  // Throws ConfigError if another machine began a group that still misses forks, or if an environment variable that
  // affects speed (machine/environment.hpp) or a file of the backend (backend_digest.hpp) differs from that of a fork
  // that this machine keeps. `forks`: those of a complete cell.
  ResumedCells(const RunRequest& request, const CellGroups& groups, const std::vector<Cell>& cells,
               int forks);

  const ResumedCell& of(std::size_t cell) const { return cells_[cell]; }

 private:
  void place_group(const std::vector<std::size_t>& group, const std::string& name, const RunRequest& request,
                   int forks);

  std::vector<ResumedCell> cells_;
};

// Throw ConfigError if forks that are kept read other data or weights. `dataset`: the set that the cell reads now.
void reject_other_dataset(const Report& earlier, const ResumedCell& cell, const DatasetRecord& dataset);
void reject_other_weights(const Report& earlier, const FileDigest& weights);

}  // namespace assay
