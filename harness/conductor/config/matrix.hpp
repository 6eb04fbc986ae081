// From a config to the cells of a run.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "harness/conductor/config/cell.hpp"
#include "harness/conductor/config/config.hpp"

namespace assay {

enum class Until {
  forks,  // until every cell has its forks
  clear,  // until the order of the cells is clear
};

enum class ForkStyle {
  fresh,     // a new process for every fork
  resident,  // one process for all forks of a cell
};

// The settings of the whole run.
struct RunSettings {
  int forks = 3;
  int spare_rounds = 1;  // for rounds in which the machine was disturbed
  Until until = Until::forks;
  ForkStyle fork_style = ForkStyle::fresh;
  double max_seconds = 0;    // of the whole run; 0: no limit
  int exams = 2;             // sets of questions that the rounds alternate between
  bool examine_all = false;  // also all later forks of a resident process
  std::uint64_t seed = 1;
  bool seed_per_round = true;
  double time_limit = 600;
  bool quick = false;
  bool profile = false;
  std::string roofline = "auto";
  std::vector<std::filesystem::path> data;
  std::filesystem::path weights;                   // published ones; empty: parameters are drawn
  std::map<std::string, std::string> environment;  // variables of the workers that measure

  // The seed of the parameters and plans of that round.
  std::uint64_t seed_of(int round) const {
    return seed_per_round ? seed + static_cast<std::uint64_t>(round) : seed;
  }
  // The seed of the exam of that round.
  std::uint64_t exam_seed_of(int round) const { return seed + static_cast<std::uint64_t>(round % exams); }
};
// Throws ConfigError for a variable that cannot be set.
RunSettings settings_of(const RunConfig& config);

// Whether a row has the mode `best`. Throws ConfigError, as expand() does.
bool seeks_best(const RunConfig& config);

struct Expansion {
  std::vector<Cell> cells;
  std::vector<std::string> left_out;  // a sentence for each named backend without a cell or a profile
};

// Multiplies out every row, in the order of the config. If no mode is given, a backend gets its recommended
// mode (every mode if it recommends none). `all` means every mode. `best` means every mode but the bare one,
// in every layout, as candidates (run/best_mode.hpp). `all` and `best` skip modes in which the backend
// rejects the cell (Cell::refusal), and `best` such layouts. A mode that this backend does not have, but another backend of the row
// has, makes no cell. A device, task, precision, layout or loader that the backend does not have makes a cell
// that is `unsupported`; a backend that is not set up makes one that is `unavailable`. Throws ConfigError for
// an unknown workload, backend, mode or data set (with the nearest known name), a graph that cannot be built,
// and two rows that make the same cell, except with --quick or options of the command line that the rows lose
// their difference to: then the first row makes it.
Expansion expand(const RunConfig& config, const BackendRegistry& registry);

}  // namespace assay
