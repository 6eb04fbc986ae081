// The memory and the time that the oracle needs for the exam of a cell, estimated before anything runs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/conductor/config/cell.hpp"
#include "harness/graph/program.hpp"

namespace assay {

struct OracleNeed {
  double bytes = 0;  // of memory, at most
  double flops = 0;  // of all runs of one exam, in fp64 and in the cell's precision

  // With that many threads of this machine: within a factor of three.
  double seconds(int threads) const;
};

// Throws GraphError.
OracleNeed oracle_need(const Cell& cell);

// Why the oracle cannot answer here: "the oracle needs about 24 GB of memory, and 13 GB are available"; empty if it can,
// or if nobody knows how much memory is available.
std::string why_too_large(const OracleNeed& need, std::optional<std::int64_t> available_bytes);

// One sentence for each group of checked cells that cannot be examined here, or whose exam may take longer than the
// time limit of a phase. It names the cell and the remedy.
std::vector<std::string> doubts_about_exams(const std::vector<Cell>& cells, double time_limit,
                                            std::optional<std::int64_t> available_bytes);

}  // namespace assay
