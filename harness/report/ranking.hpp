// The places of cells, by the paired ratios of all of them.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "harness/report/report.hpp"

namespace assay {

// From 1: the cell may have any place from `first` to `last`. `first` - 1 cells are clearly faster, and as many as come
// after `last` are clearly slower.
struct Places {
  int first = 1, last = 1;
  bool operator==(const Places&) const = default;
};

struct Ranking {
  // Places in the span, the fastest first. No cell comes before one that is clearly faster.
  std::vector<std::size_t> order{};
  // Of each cell of the span; absent: it is not ranked.
  std::vector<std::optional<Places>> places{};
};

// A cell is clearly faster than another one if their ratio has an interval (six rounds) that excludes 1, or if it is
// clearly faster than a third one that is. Two cells are ranked only if they share six rounds that count, or if one is
// clearly faster; the cells with most pairs of which neither holds are left out. A single cell has place 1.
//
// Of cells that are not clearly apart, the one with the shorter time comes first: time is a factor of the cell by one of
// the round, and both are medians in turn (Tukey's median polish of the logarithms). So rounds in which the machine was
// slower do not count against the cells that ran in them. Precondition: the cells are of one report and may be ranked.
Ranking rank_by_pairs(std::span<const CellReport* const> cells);

}  // namespace assay
