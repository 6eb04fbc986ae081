// The common options of `run`, `check`, `ab` and `calibrate`: a config, axes, settings and a filter of cells.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/conductor/cli/table_options.hpp"
#include "harness/conductor/run/run.hpp"

namespace assay::cli {

class RunOptions {
 public:
  // `resumable`: adds --resume, to continue an earlier report.
  void add(CLI::App& command, bool resumable = true);

  // The config of the file, overridden by the given options. Also reads the report of --resume. Throws
  // UsageError, ConfigError, JsonError.
  RunRequest request(const std::vector<std::string>& command_line) const;
  // `folders`: where to look for backends instead of this program's folders; empty: this program's folders.
  Registries registries(const RunConfig& config,
                        const std::vector<std::filesystem::path>& folders = {}) const;

  std::string out;     // --out
  std::string resume;  // --resume

 private:
  // Replaces --inputs and --labels by the data set npy, with these files among its places.
  void name_arrays(OptionValues& given) const;

  std::string config_, filter_, inputs_, labels_;
  bool keep_folders_ = false;
  TableOptions table_;
};

// Prints the cells without running them (--dry-run). Returns the exit code: `incomplete` if no cell can be
// run.
int print_plan(const Expansion& expansion, const BackendRegistry& backends, const RunSettings& settings,
               bool check_only);

// One sentence for each setting that is allowed but probably a mistake, and for each exam that is too large for this
// machine.
std::vector<std::string> doubts_about(const std::vector<Cell>& cells, const RunSettings& settings);

}  // namespace assay::cli
