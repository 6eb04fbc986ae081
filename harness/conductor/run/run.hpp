// A whole run: checks the cells, times them round by round, and writes the report after every fork.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "harness/conductor/backends/backends.hpp"
#include "harness/conductor/config/config.hpp"
#include "harness/conductor/config/matrix.hpp"
#include "harness/conductor/process/interrupts.hpp"
#include "harness/conductor/run/progress.hpp"
#include "harness/report/report.hpp"
#include "harness/report/run_record.hpp"

namespace assay {

struct RunRequest {
  RunConfig config;
  std::filesystem::path out;  // path of the report; empty: do not write one
  std::filesystem::path
      trial_of{};  // without `out`, for a trial: the report of its run, which no worker may change
  std::optional<Report> resume;           // its finished cells are kept, the rest is run
  std::vector<std::string> command_line;  // for the report
  MachineRecord environment{};
  std::string filter;            // see is_wanted()
  std::optional<Shard> shard{};  // measure only the cells of this part
  bool keep_folders = false;
  bool check_only = false;         // do not time: `assay check`
  std::vector<BestRecord> best{};  // trials of --mode best, for the report
};

struct RunOutcome {
  Report report;
  int signal = 0;         // that interrupted it; 0: none
  bool complete() const;  // every cell of the shard is ok
};

// The cells of the request after the filter; those of other shards are not runnable. Throws ConfigError, also if
// no cell is left.
Expansion cells_of(const RunRequest& request, const Registries& registries);

// The command lines that a run of the cells starts, each once, without the cell folder; includes the oracle
// if a cell is checked.
std::vector<std::string> programs_of(const std::vector<Cell>& cells, const BackendRegistry& registry);

// Throws ConfigError or IoError for errors before anything has run: in the config, the path of the report, a
// damaged data set, an earlier report of another config. Later failures become rows of the report. `cells`: those of
// the request. If the config has the mode `best`, they are not run: tries its candidates first, and runs the best.
RunOutcome run(const RunRequest& request, Expansion cells, const Registries& registries, Progress& progress);

}  // namespace assay
