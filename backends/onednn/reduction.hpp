// Sums, sums of products and maxima over given dimensions of a row-major tensor, and the reverse: a function
// of each element of the whole tensor and its reduced element. Threaded; with the same number of threads the
// result has the same bits each time.
#pragma once

#include <span>
#include <vector>

#include "backends/onednn/blocks.hpp"

namespace assay::onednn {

// A row-major tensor as rows of `run` adjacent elements. Neighbouring dimensions that are both kept or both
// reduced count as one; the last of these is the run.
class Rows {
 public:
  Rows(const Shape& whole, std::span<const std::int64_t> axes);

  std::int64_t kept() const { return kept_count_; }        // indices of the kept dimensions before the run
  std::int64_t reduced() const { return reduced_count_; }  // of the reduced ones before the run
  std::int64_t run() const { return run_; }
  bool run_is_reduced() const { return run_is_reduced_; }
  // The offset of the run in the whole tensor.
  std::int64_t offset(std::int64_t kept, std::int64_t reduced) const {
    return place(kept_dims_, kept) + place(reduced_dims_, reduced);
  }
  // The size of the reduced tensor, and the offset of a run's elements in it: one, or as many as the run has.
  std::int64_t outputs() const { return kept_count_ * width(); }
  std::int64_t width() const { return run_is_reduced_ ? 1 : run_; }

 private:
  struct Dim {
    std::int64_t size, stride;
  };
  static std::int64_t place(const std::vector<Dim>& dims, std::int64_t index);

  std::vector<Dim> kept_dims_, reduced_dims_;  // innermost first
  std::int64_t kept_count_ = 1, reduced_count_ = 1, run_ = 1;
  bool run_is_reduced_ = true;
};

enum class Fold : std::uint8_t { sum, product, largest };

// Borrows nothing; used from one thread.
class Reduction {
 public:
  // `type`: of the whole tensor, and of the second factor of a product.
  Reduction(const TensorType& type, std::span<const std::int64_t> axes, Fold fold, int threads);

  const Rows& rows() const { return rows_; }
  std::int64_t scratch_bytes() const;
  // The elements of the reduced tensor, in scratch. `b` is the other factor of a product, else null.
  const double* run(const void* a, const void* b, double* scratch) const;

 private:
  void fold_columns(const void* a, const void* b, double* to, std::int64_t task, std::int64_t split) const;
  double fold_runs(const void* a, const void* b, std::int64_t task, std::int64_t split) const;

  Rows rows_;
  DType dtype_;
  Fold fold_;
  int threads_;
  std::int64_t blocks_ = 1;  // of a run
  std::int64_t tasks_ = 1;   // parts of the result
  std::int64_t units_ = 1;   // from which each part is reduced
  std::int64_t splits_ = 1;  // groups of units that are reduced separately if there are few parts
};

// Calls f(offset, n, output) for each block of n <= block_elements elements of a run. `offset` is in the
// whole tensor; `output` is in the reduced one, of the run's only element or of the first of n.
template <typename F>
void for_runs(const Rows& rows, int threads, const F& f) {
  const std::int64_t blocks = (rows.run() + block_elements - 1) / block_elements;
  const std::int64_t grain = std::max<std::int64_t>(1, block_elements / rows.run());
  parallel(threads, rows.kept() * rows.reduced() * blocks, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t first = i % blocks * block_elements, row = i / blocks;
      const std::int64_t kept = row / rows.reduced();
      const std::int64_t n = std::min(block_elements, rows.run() - first);
      f(rows.offset(kept, row % rows.reduced()) + first, n,
        rows.run_is_reduced() ? kept : kept * rows.run() + first);
    }
  });
}

}  // namespace assay::onednn
