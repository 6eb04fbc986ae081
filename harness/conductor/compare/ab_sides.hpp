// The two sides of a sequential comparison: what each sets, and which of its cells belong together.
#pragma once

#include <cstddef>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "harness/conductor/config/cell.hpp"
#include "harness/conductor/config/options.hpp"

namespace assay {

struct AbSide {
  std::string text;             // as it was given
  OptionValues values;          // over the config, on this side alone
  std::filesystem::path build;  // whose backends do the work; empty: this program's own
};

// "backend=onednn,mode=graph", "build=../base/build/release", "threads=1"; "" is the config as it stands.
// Axes and the settings of a cell, one value each, and `build`: a build folder, or the prefix of an
// installation. Throws ConfigError, led by `where` ("--a").
AbSide parse_side(const std::string& text, const std::string& where);

// The folders with the backends of a build. Throws ConfigError when it has none.
std::vector<std::filesystem::path> backends_of_build(const std::filesystem::path& build);

struct CellPair {
  std::size_t a = 0, b = 0;  // indices into the cells of the sides
  std::string id;            // "mlp/{onednn|torch}/cpu/…"; the id itself where both have the same
};

// Each cell of one side with the cell of the other that has the same axes but for those in `free`. Throws
// ConfigError where a cell has no partner, or more than one.
std::vector<CellPair> pair_cells(const std::vector<Cell>& a, const std::vector<Cell>& b,
                                 const std::set<std::string>& free);

}  // namespace assay
