#include "backends/onednn/reduction.hpp"

#include <algorithm>
#include <limits>

namespace assay::onednn {

Rows::Rows(const Shape& whole, std::span<const std::int64_t> axes) {
  struct Merged {
    std::int64_t size, stride;
    bool reduced;
  };
  std::vector<Merged> merged;  // innermost first
  std::int64_t stride = 1;
  for (std::size_t d = whole.size(); d-- > 0;) {
    const bool reduced = std::ranges::find(axes, static_cast<std::int64_t>(d)) != axes.end();
    if (whole[d] > 1) {
      if (!merged.empty() && merged.back().reduced == reduced) {
        merged.back().size *= whole[d];
      } else {
        merged.push_back({whole[d], stride, reduced});
      }
    }
    stride *= whole[d];
  }
  for (std::size_t i = 0; i < merged.size(); ++i) {
    const Merged& dim = merged[i];
    if (i == 0) {
      run_ = dim.size;
      run_is_reduced_ = dim.reduced;
      continue;
    }
    (dim.reduced ? reduced_dims_ : kept_dims_).push_back({dim.size, dim.stride});
    (dim.reduced ? reduced_count_ : kept_count_) *= dim.size;
  }
}

std::int64_t Rows::place(const std::vector<Dim>& dims, std::int64_t index) {
  std::int64_t offset = 0;
  for (const Dim& dim : dims) {
    offset += index % dim.size * dim.stride;
    index /= dim.size;
  }
  return offset;
}

Reduction::Reduction(const TensorType& type, std::span<const std::int64_t> axes, Fold fold, int threads)
    : rows_(type.shape, axes), dtype_(type.dtype), fold_(fold), threads_(threads) {
  blocks_ = (rows_.run() + block_elements - 1) / block_elements;
  tasks_ = rows_.kept() * (rows_.run_is_reduced() ? 1 : blocks_);
  units_ = rows_.reduced() * (rows_.run_is_reduced() ? blocks_ : 1);
  if (tasks_ < threads) splits_ = std::min(units_, (threads + tasks_ - 1) / tasks_);
}

std::int64_t Reduction::scratch_bytes() const {
  return splits_ * rows_.outputs() * static_cast<std::int64_t>(sizeof(double));
}

// A block of a run of kept elements, over a share of the reduced indices.
void Reduction::fold_columns(const void* a, const void* b, double* to, std::int64_t task,
                             std::int64_t split) const {
  const std::int64_t kept = task / blocks_, first = task % blocks_ * block_elements;
  const std::int64_t n = std::min(block_elements, rows_.run() - first);
  to += kept * rows_.run() + first;
  std::fill_n(to, n, fold_ == Fold::largest ? -std::numeric_limits<double>::infinity() : 0.0);
  Block left, right;
  for (std::int64_t u = units_ * split / splits_; u < units_ * (split + 1) / splits_; ++u) {
    const std::int64_t at = rows_.offset(kept, u) + first;
    const float* x = left.read(a, dtype_, at, n);
    if (fold_ == Fold::sum) loops().folds.add(x, to, n);
    if (fold_ == Fold::product) loops().folds.add_product(x, right.read(b, dtype_, at, n), to, n);
    if (fold_ == Fold::largest) loops().folds.raise(x, to, n);
  }
}

// Runs that are wholly reduced, over a share of their blocks.
double Reduction::fold_runs(const void* a, const void* b, std::int64_t task, std::int64_t split) const {
  double total = fold_ == Fold::largest ? -std::numeric_limits<double>::infinity() : 0.0;
  Block left, right;
  for (std::int64_t u = units_ * split / splits_; u < units_ * (split + 1) / splits_; ++u) {
    const std::int64_t first = u % blocks_ * block_elements;
    const std::int64_t n = std::min(block_elements, rows_.run() - first);
    const std::int64_t at = rows_.offset(task, u / blocks_) + first;
    const float* x = left.read(a, dtype_, at, n);
    if (fold_ == Fold::sum) total += loops().folds.sum(x, n);
    if (fold_ == Fold::product) total += loops().folds.dot(x, right.read(b, dtype_, at, n), n);
    if (fold_ == Fold::largest) total = std::max(total, static_cast<double>(loops().folds.largest(x, n)));
  }
  return total;
}

const double* Reduction::run(const void* a, const void* b, double* scratch) const {
  const std::int64_t outputs = rows_.outputs();
  const std::int64_t elements = rows_.reduced() * rows_.run() / splits_;  // of one task, roughly
  const std::int64_t grain = std::max<std::int64_t>(1, block_elements / std::max<std::int64_t>(1, elements));
  parallel(threads_, tasks_ * splits_, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t task = i / splits_, split = i % splits_;
      double* to = scratch + split * outputs;
      if (rows_.run_is_reduced()) {
        to[task] = fold_runs(a, b, task, split);
      } else {
        fold_columns(a, b, to, task, split);
      }
    }
  });
  for (std::int64_t split = 1; split < splits_; ++split) {
    const double* from = scratch + split * outputs;
    for (std::int64_t o = 0; o < outputs; ++o) {
      scratch[o] = fold_ == Fold::largest ? std::max(scratch[o], from[o]) : scratch[o] + from[o];
    }
  }
  return scratch;
}

}  // namespace assay::onednn
