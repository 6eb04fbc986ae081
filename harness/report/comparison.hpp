// Which cells may be compared, and by how much they differ: paired ratios within rounds.
#pragma once

#include <optional>
#include <string>

#include "harness/report/report.hpp"

namespace assay {

// Cells of one title are alike in all axes but backend, mode and layout: the same work under the same
// precision, batch, data and threads. "lenet5 train fp32 b200 fashion-mnist adam, cpu t2, resident, steps"
std::string group_title(const Axes& axes);
// What groups of unlike sizes have in common: "lenet5 train fp32 fashion-mnist adam, cpu t2, resident, steps"
// of all batch sizes, "op/relu infer fp32, cpu t2, warm cache" of all sizes of an op.
std::string family_title(const Axes& axes);

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
