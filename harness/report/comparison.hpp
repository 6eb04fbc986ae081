// Which cells may be compared, and by how much they differ: paired ratios within rounds.
#pragma once

#include <optional>
#include <string>

#include "harness/report/report.hpp"

namespace assay {

// A ratio of times, a / b, over the rounds in which both have a clean fork.
struct PairedRatio {
  double value = 0;               // median over rounds
  std::optional<double> lower{};  // absent below six rounds
  std::optional<double> upper{};
  std::optional<double> confidence{};
  int n = 0;  // rounds
};
// Time a step of `a` over that of `b`; nothing where no round is shared or a cell is not clean.
std::optional<PairedRatio> time_ratio(const CellReport& a, const CellReport& b);

// Median time a step over the clean forks; nothing unless the cell may be ranked.
std::optional<double> ranked_time(const CellReport& cell);

}  // namespace assay
