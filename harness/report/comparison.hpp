// Which cells of a report may be compared, and by how much they differ: paired ratios within rounds.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "harness/report/report.hpp"

namespace assay {

// Cells alike in all axes but backend, mode and layout: the same work under the same precision, batch, data
// and threads.
struct ComparisonGroup {
  std::string title;               // "lenet5 train fp32 b200 fashion-mnist adam, cpu t2, resident, steps"
  std::vector<std::size_t> cells;  // indices into Report::cells, in the report's order
};
std::vector<ComparisonGroup> comparison_groups(const Report& report);

// A ratio of times, a / b, over the rounds in which both have a clean fork.
struct PairedRatio {
  double value = 0;             // median over rounds
  std::optional<double> lower;  // absent below six rounds
  std::optional<double> upper;
  std::optional<double> confidence;
  int n = 0;  // rounds
};
// Time a step of `a` over that of `b`; nothing where no round is shared or a cell is not clean.
std::optional<PairedRatio> time_ratio(const CellReport& a, const CellReport& b);

// Median time a step over the clean forks; nothing unless the cell may be ranked.
std::optional<double> ranked_time(const CellReport& cell);

// What the others of the group are measured against: the bare library's fastest ranked cell, and where there
// is none the fastest ranked cell of all. Nothing where no cell is ranked.
std::optional<std::size_t> baseline(const Report& report, const ComparisonGroup& group);

}  // namespace assay
