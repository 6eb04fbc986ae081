// A stable counting sort of positions by the index at each position.
#pragma once

#include "backends/cuda/kernels/launch.hpp"

namespace assay::cuda {

// Positions are handled in blocks: the rank of a position among equal ones is counted within its block, then
// the counts of the blocks before it are added.
struct RankInBlock {
  const std::int32_t* indices;
  std::int32_t *rank, *counts;  // counts: (blocks, rows), initially zero
  std::int64_t positions, rows, block;
  ASSAY_HD void operator()(std::int64_t i) const {
    const std::int32_t index = indices[i];
    if (index < 0 || index >= rows) return;
    const std::int64_t first = i / block * block, end = smaller(first + block, positions);
    std::int32_t before = 0;
    for (std::int64_t j = first; j < i; ++j) before += indices[j] == index ? 1 : 0;
    rank[i] = before;
    // The rank of the last of the equal positions gives their number.
    for (std::int64_t j = i + 1; j < end; ++j) {
      if (indices[j] == index) return;
    }
    counts[i / block * rows + index] = before + 1;
  }
};

// Replaces the counts of a row by the sum of the counts before each block; returns the total.
struct AddBlocks {
  std::int32_t *counts, *total;
  std::int64_t blocks, rows;
  ASSAY_HD void operator()(std::int64_t row) const {
    std::int32_t sum = 0;
    for (std::int64_t b = 0; b < blocks; ++b) {
      const std::int32_t here = counts[b * rows + row];
      counts[b * rows + row] = sum;
      sum += here;
    }
    total[row] = sum;
  }
};

// first[r] = the totals of the rows before r, for r in [0, rows]. By one team.
struct AddRows {
  const std::int32_t* total;
  std::int32_t* first;
  std::int64_t rows;
  ASSAY_TEAM void operator()(const Team& team, std::int64_t) const {
    const std::int64_t each = ceil_div(rows, team.size());
    const std::int64_t begin = smaller(team.rank() * each, rows), end = smaller(begin + each, rows);
    std::int32_t own = 0;
    for (std::int64_t r = begin; r < end; ++r) own += total[r];
    std::int32_t sum = team.before(own);
    for (std::int64_t r = begin; r < end; ++r) {
      first[r] = sum;
      sum += total[r];
    }
    if (team.rank() + 1 == team.size()) first[rows] = sum;
  }
};

struct Place {
  const std::int32_t *indices, *rank, *counts, *first;
  std::int32_t* order;
  std::int64_t rows, block;
  ASSAY_HD void operator()(std::int64_t i) const {
    const std::int32_t index = indices[i];
    if (index < 0 || index >= rows) return;
    order[first[index] + counts[i / block * rows + index] + rank[i]] = static_cast<std::int32_t>(i);
  }
};

// The rows that have a position, ascending, then -1. By one team.
struct ListTouched {
  const std::int32_t* first;  // (rows + 1)
  std::int32_t* touched;      // (kept)
  std::int64_t rows, kept;
  ASSAY_TEAM void operator()(const Team& team, std::int64_t) const {
    for (std::int64_t k = team.rank(); k < kept; k += team.size()) touched[k] = -1;
    team.wait();
    const std::int64_t each = ceil_div(rows, team.size());
    const std::int64_t begin = smaller(team.rank() * each, rows), end = smaller(begin + each, rows);
    std::int32_t own = 0;
    for (std::int64_t r = begin; r < end; ++r) own += first[r + 1] > first[r] ? 1 : 0;
    std::int32_t place = team.before(own);
    for (std::int64_t r = begin; r < end; ++r) {
      if (first[r + 1] > first[r]) touched[place++] = static_cast<std::int32_t>(r);
    }
  }
};

struct ZeroCounts {
  std::int32_t* counts;
  ASSAY_HD void operator()(std::int64_t i) const { counts[i] = 0; }
};

class Buckets {
 public:
  // Fewer than 2^31 positions.
  Buckets(std::int64_t positions, std::int64_t rows)
      : positions_(positions), rows_(rows), block_(larger(256, ceil_div(positions, 64))) {}

  std::int64_t bytes() const { return 4 * (blocks() * rows_ + 2 * positions_ + rows_ + rows_ + 1); }

  struct Sorted {
    const std::int32_t* first;  // (rows + 1): where the positions of a row begin in `order`
    const std::int32_t* order;  // positions by row, ascending in a row; those without a row are left out
  };
  // scratch: bytes() of memory, read by work that is enqueued after this.
  Sorted sort(Stream stream, const std::int32_t* indices, void* scratch) const {
    auto* const counts = static_cast<std::int32_t*>(scratch);
    std::int32_t* const rank = counts + blocks() * rows_;
    std::int32_t* const order = rank + positions_;
    std::int32_t* const total = order + positions_;
    std::int32_t* const first = total + rows_;
    for_each(stream, blocks() * rows_, ZeroCounts{counts});
    for_each(stream, positions_, RankInBlock{indices, rank, counts, positions_, rows_, block_});
    for_each(stream, rows_, AddBlocks{counts, total, blocks(), rows_});
    for_each_row(stream, 1, rows_, AddRows{total, first, rows_});
    for_each(stream, positions_, Place{indices, rank, counts, first, order, rows_, block_});
    return {first, order};
  }

 private:
  std::int64_t blocks() const { return ceil_div(positions_, block_); }
  std::int64_t positions_, rows_, block_;
};

}  // namespace assay::cuda
