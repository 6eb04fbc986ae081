#include "harness/conductor/check/tolerance.hpp"

#include <algorithm>
#include <cmath>

namespace assay {
namespace {

double largest(std::span<const double> values) {
  double result = 0;
  for (const double value : values) result = std::max(result, std::abs(value));
  return result;
}

double ratio_of(double error, double bound) {
  if (!std::isfinite(error)) return beyond_measure;
  if (error == 0) return 0;
  return bound > 0 ? std::min(error / bound, beyond_measure) : beyond_measure;
}

}  // namespace

bool is_only_rounding(const ErrorNorms& seen, std::span<const double> exact, const Precision& precision) {
  return largest(exact) < unit_roundoff(precision.master) * seen.max;
}

Bound bound_of(const ErrorNorms& seen, std::span<const double> exact, const Precision& precision,
               double repeats) {
  const double count = std::max<double>(1, static_cast<double>(exact.size()));
  const double growth = std::sqrt(repeats);
  const bool stored_narrow = precision.storage != precision.master;
  double factor = is_narrow(precision) ? narrow_tolerance_factor : tolerance_factor * growth;
  if (stored_narrow && is_only_rounding(seen, exact, precision)) factor *= correlated_rounding_factor;
  factor *= 1 + small_sample / std::sqrt(count);
  const double floor = floor_roundings * unit_roundoff(precision.master) * growth;
  return {factor * seen.max + floor * largest(exact), factor * seen.l2 + floor};
}

namespace {

// What is typical at each element of a matrix with rows of that length: the mean of its row times the mean of its column
// over the mean of all. The gradient of a weight is a sum of products of what is in its row and what is in its column.
class Typical {
 public:
  Typical(std::span<const double> values, std::size_t row)
      : rows_(values.size() / row), columns_(row), row_(row) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      rows_[i / row] += values[i] / static_cast<double>(row);
      columns_[i % row] += values[i] / static_cast<double>(rows_.size());
    }
    for (const double of_row : rows_) mean_ += of_row / static_cast<double>(rows_.size());
  }
  double at(std::size_t i) const { return mean_ > 0 ? rows_[i / row_] * columns_[i % row_] / mean_ : 0; }

 private:
  std::vector<double> rows_, columns_;
  double mean_ = 0;
  std::size_t row_;
};

}  // namespace

std::vector<double> element_bounds(std::span<const double> deviations, std::span<const double> exact,
                                   std::size_t rows, const Precision& precision, double repeats) {
  const double growth = std::sqrt(repeats);
  const double factor = tolerance_factor * growth * (1 + small_sample);
  const double floor = floor_roundings * unit_roundoff(precision.master) * growth;
  const Typical typical(deviations, exact.size() / rows);
  std::vector<double> bounds(exact.size());
  for (std::size_t i = 0; i < exact.size(); ++i)
    bounds[i] = factor * (deviations[i] + typical.at(i)) + floor * std::abs(exact[i]);
  return bounds;
}

void compare_elements(TensorVerdict& verdict, std::span<const double> got, std::span<const double> exact,
                      std::span<const double> bounds) {
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const double error = std::abs(got[i] - exact[i]);
    const double ratio = ratio_of(error, bounds[i]);
    if (ratio > verdict.ratio) {
      verdict.ratio = ratio;
      verdict.max_error = std::isfinite(error) ? error : beyond_measure;
      verdict.max_bound = bounds[i];
    }
  }
}

TensorVerdict compare(std::string name, std::span<const double> got, std::span<const double> exact,
                      const Bound& bound) {
  const ErrorNorms error = error_norms(got, exact);
  TensorVerdict verdict{std::move(name), 0, bound.max, 0, bound.l2, 0};
  verdict.ratio = std::max(ratio_of(error.max, bound.max), ratio_of(error.l2, bound.l2));
  verdict.max_error = std::isfinite(error.max) ? error.max : beyond_measure;
  verdict.l2_error = std::isfinite(error.l2) ? error.l2 : beyond_measure;
  return verdict;
}

}  // namespace assay
