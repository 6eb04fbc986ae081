// The whole of a run: cells are checked, then timed round by round, and the report is written after every
// fork.
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

// What the program exits with; docs/reference/report.md and `assay --help` say the same.
enum ExitCode : int {
  fine = 0,
  own_failure = 1,
  bad_input = 2,
  regression = 3,
  incomplete = 4,  // a cell is missing or not ok
  not_comparable = 5,
  inconclusive = 6,
};

struct RunRequest {
  RunConfig config;
  std::filesystem::path out;              // of the report; empty: none is written
  std::optional<Report> resume;           // what is ok or settled in it is kept, the rest is run
  std::vector<std::string> command_line;  // for the report
  nlohmann::json environment = nlohmann::json::object();
  std::string filter;  // of is_wanted()
  bool keep_folders = false;
  bool check_alone = false;        // no timing: `assay check`
  std::vector<BestRecord> best{};  // what --mode best tried, for the report
};

struct RunOutcome {
  Report report;
  int signal = 0;         // that interrupted it; 0: none
  bool complete() const;  // every cell is ok
};

// The cells of the request, filter applied. Throws ConfigError, also when the filter leaves none.
Expansion cells_of(const RunRequest& request, const BackendRegistry& registry);

// What a run of the cells starts, each once: command lines without the cell folder, with that of the oracle where a cell
// is checked.
std::vector<std::string> programs_of(const std::vector<Cell>& cells, const BackendRegistry& registry);

// Throws ConfigError or IoError for what is wrong before anything has run: the config, the place of the
// report, a damaged data set, an earlier report of another config. Afterwards everything that goes wrong is a
// row. Where the config asks for the best mode, its candidates are tried first.
RunOutcome run(const RunRequest& request, const BackendRegistry& registry, Progress& progress);

}  // namespace assay
