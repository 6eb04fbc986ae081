// From a config to the cells of a run.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "harness/conductor/config/cell.hpp"
#include "harness/conductor/config/config.hpp"

namespace assay {

enum class Until {
  forks,  // every cell has its forks
  clear,  // the order of the cells is clear
};

enum class ForkStyle {
  fresh,     // every fork has a process of its own
  resident,  // the forks of a cell share one
};

// What holds for the whole run.
struct RunSettings {
  int forks = 3;
  int spare_rounds = 1;  // for rounds in which the machine was disturbed
  Until until = Until::forks;
  ForkStyle fork_style = ForkStyle::fresh;
  double max_seconds = 0;  // no round begins later; 0: no limit
  std::uint64_t seed = 1;
  bool seed_per_round = true;
  double time_limit = 600;
  bool quick = false;
  bool profile = false;
  std::string roofline = "auto";
  std::vector<std::filesystem::path> data;

  // Of the parameters and the plans of that round.
  std::uint64_t seed_of(int round) const {
    return seed_per_round ? seed + static_cast<std::uint64_t>(round) : seed;
  }
};
RunSettings settings_of(const RunConfig& config);

// Whether a row asks for mode `best`. Throws ConfigError, as expand() does.
bool seeks_best(const RunConfig& config);

struct Expansion {
  std::vector<Cell> cells;
  std::vector<std::string> left_out;  // sentences: backends that were named and make no cell
};

// Every row multiplied out, in the order of the config. A mode that was not given becomes the backend's recommended one
// (every mode, where it recommends none), `all` every mode, and `best` every mode but the bare one in every layout as
// candidates (run/best_mode.hpp); both leave out modes in which the backend refuses the cell (Cell::refusal). A mode that this backend does not have, but another one of the row has, is no cell. A
// device, task, precision, layout or loader that the backend does not have makes a cell that is `unsupported`; a backend
// that is not set up one that is `unavailable`. Throws ConfigError: an unknown workload, backend, mode or data set (with
// the nearest known name), a graph that cannot be built, two rows that make the same cell.
Expansion expand(const RunConfig& config, const BackendRegistry& registry);

}  // namespace assay
