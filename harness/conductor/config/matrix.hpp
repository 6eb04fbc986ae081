// From a config to the cells of a run.
#pragma once

#include <string>
#include <vector>

#include "harness/conductor/config/cell.hpp"
#include "harness/conductor/config/config.hpp"
#include "harness/conductor/config/registries.hpp"

namespace assay {

// Whether a row has the mode `best`. Throws ConfigError, as expand() does.
bool seeks_best(const RunConfig& config);

struct Expansion {
  std::vector<Cell> cells;
  std::vector<std::string> left_out;  // a sentence for each backend without a cell or a profile
};

// Multiplies out every row, in the order of the config. If no device is given, or `auto`, devices.hpp chooses; a
// backend that the row does not name is left out where it lacks the device. If no mode is given, a backend gets the
// one that it recommends on the device (every mode if it recommends none). `all` means every mode. `best` means every mode but the bare ones,
// in every layout, as candidates (run/best_mode.hpp). `all` and `best` skip modes in which the backend
// rejects the cell (Cell::refusal), and `best` such layouts. A mode that this backend does not have, but another backend of the row
// has, makes no cell. A device, task, precision, layout or loader that the backend does not have makes a cell
// that is `unsupported`; a backend that is not set up makes one that is `unavailable`. Throws ConfigError for
// an unknown workload, backend, mode or data set (with the nearest known name), a graph that cannot be built,
// and two rows that make the same cell, except with --quick or options of the command line that the rows lose
// their difference to: then the first row makes it.
Expansion expand(const RunConfig& config, const Registries& registries);

}  // namespace assay
