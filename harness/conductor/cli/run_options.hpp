// What `run` and `check` have in common: a config, axes and settings by option, and which of its cells.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/conductor/cli/table_options.hpp"
#include "harness/conductor/run/run.hpp"

namespace assay::cli {

class RunOptions {
 public:
  // `resumable`: the command can go on from an earlier report.
  void add(CLI::App& command, bool resumable = true);

  // The config of the file, with what was given by option over it. Reads --resume, too. Throws UsageError,
  // ConfigError, JsonError.
  RunRequest request(const std::vector<std::string>& command_line) const;
  // `folders`: where else than this program has them.
  BackendRegistry registry(const RunConfig& config,
                           const std::vector<std::filesystem::path>& folders = {}) const;

  std::string out;     // --out
  std::string resume;  // --resume

 private:
  std::string config_, filter_;
  bool keep_folders_ = false;
  TableOptions table_;
};

// The cells, without running them: what --dry-run prints. Returns the exit code: `incomplete` where none can be run.
int print_plan(const Expansion& expansion, const BackendRegistry& registry, const RunSettings& settings,
               bool check_alone);

// What is allowed and seldom meant: a sentence for each.
std::vector<std::string> doubts_about(const std::vector<Cell>& cells);

}  // namespace assay::cli
