// The two sides of a sequential comparison: their overrides of the config, and the pairs of their cells.
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
  std::string text;             // as given
  OptionValues values;          // overrides of the config, for this side only
  std::filesystem::path build;  // the build with the backends to use; empty: this program's own
};

// "backend=onednn,mode=graph", "build=../base/build/release", "interpreter=torch=/opt/torch-2.9/bin/python", "threads=1";
// "" leaves the config unchanged. The names are axes and settings of a cell, one value each; `build`: a build folder, or
// the prefix of an installation; and `interpreter`: the Python of a framework, for another version of it. Throws ConfigError prefixed with `where` ("--a").
AbSide parse_side(const std::string& text, const std::string& where);

// The folders with the backends of a build. Throws ConfigError if it has none.
std::vector<std::filesystem::path> backends_of_build(const std::filesystem::path& build);

struct CellPair {
  std::size_t a = 0, b = 0;  // indices into the cells of the sides
  std::string id;            // "mlp/{onednn|torch}/cpu/…"; the id itself if both are equal
};

// Pairs each cell of one side with the cell of the other side whose axes are equal except those in `free`.
// Throws ConfigError if a cell has no partner, or more than one.
std::vector<CellPair> pair_cells(const std::vector<Cell>& a, const std::vector<Cell>& b,
                                 const std::set<std::string>& free);

}  // namespace assay
