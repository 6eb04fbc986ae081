// From a config to the cells of a run, and the order in which their forks are run.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "harness/conductor/config/cell.hpp"
#include "harness/conductor/config/config.hpp"

namespace assay {

// What holds for the whole run.
struct RunSettings {
  int forks = 3;
  std::uint64_t seed = 1;
  double time_limit = 600;
  bool quick = false;
  bool profile = false;
  std::string roofline = "auto";
  std::vector<std::filesystem::path> data;
};
RunSettings settings_of(const RunConfig& config);

// Every row multiplied out, in the order of the config. A mode that was not given becomes every mode of the
// backend; one that this backend does not have, but another one of the row has, is no cell. A device, task,
// precision, layout or loader that the backend does not have makes a cell that is `unsupported`; a backend
// that is not set up one that is `unavailable`. Throws ConfigError: an unknown workload, backend, mode or
// data set (with the nearest known name), a graph that cannot be built, two rows that make the same cell.
std::vector<Cell> expand(const RunConfig& config, const BackendRegistry& registry);

struct PlannedFork {
  std::size_t cell = 0;  // index into the cells
  int round = 0;
};
// Round after round; in a round group after group in the order of the cells, and in a group the cells in an
// order drawn from (seed, round), so that what drifts meets all of them alike. Only cells that can be run.
std::vector<PlannedFork> plan_forks(const std::vector<Cell>& cells, int rounds, std::uint64_t seed);

}  // namespace assay
