// Several workers that train one model together: what a cell with --ranks above 1 needs, and the part of one rank.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/conductor/config/cell.hpp"
#include "harness/graph/program.hpp"

namespace assay {

// A worker's place among those of its cell.
struct RankPlace {
  int rank = 0, world = 1;
  std::string
      rendezvous{};  // where they find each other: "127.0.0.1:29400"; empty for a worker without others
  int local = 0, neighbours = 1;  // its number among those of its machine, and how many these are
  // Of a rank that a launcher started:
  std::string host{};               // the name of its machine
  std::vector<int> cores{};         // that it may use there, one of each physical core first
  int lane = 0;                     // its number among those that share these
  std::filesystem::path scratch{};  // its folder there; empty: the conductor starts its worker
  bool is_apart = false;            // one of them is on another machine than the conductor

  bool is_launched() const { return !scratch.empty(); }
};

// Why ranks cannot train this cell together, with what to use instead; empty if they can, or if it has one rank.
// Needs its program.
std::string ranks_refusal(const Cell& cell);

// Why the ranks of a cell on GPUs have not one each; empty if they have, or if NVML cannot be asked.
std::string gpus_refusal(const Cell& cell);
// The same with `gpus` that can be used (visible_gpus()).
std::string gpus_refusal(const Cell& cell, const std::vector<std::string>& gpus);

// The cell as one rank sees it: with its share of the batch, and the program for that. The cell itself if it has one
// rank. Throws GraphError.
Cell cell_of_rank(const Cell& cell);

}  // namespace assay
