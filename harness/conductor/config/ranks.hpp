// Several workers that train one model together: what a cell with --ranks above 1 needs, and the part of one rank.
#pragma once

#include <string>

#include "harness/conductor/config/cell.hpp"
#include "harness/graph/program.hpp"

namespace assay {

// A worker's place among those of its cell.
struct RankPlace {
  int rank = 0, world = 1;
  std::string
      rendezvous{};  // where they find each other: "127.0.0.1:29400"; empty for a worker without others
};

// Why ranks cannot train this cell together, with what to use instead; empty if they can, or if it has one rank.
// `program`: that of the cell.
std::string ranks_refusal(const Cell& cell, const Program& program);

// The cell as one rank sees it: with its share of the batch. The cell itself if it has one rank.
Cell cell_of_rank(const Cell& cell);

}  // namespace assay
