#include "harness/conductor/check/tolerance.hpp"

#include <algorithm>
#include <cmath>

namespace assay {

double largest(std::span<const double> values) {
  double result = 0;
  for (const double value : values) result = std::max(result, std::abs(value));
  return result;
}

TensorVerdict beyond_all_measure(std::string name) {
  return {std::move(name), beyond_measure, 0, beyond_measure, 0, beyond_measure};
}

bool is_narrow(const Precision& precision) { return precision.storage != precision.master || precision.tf32; }

bool is_only_rounding(const ErrorNorms& seen, std::span<const double> exact, const Precision& precision) {
  return largest(exact) < unit_roundoff(precision.master) * seen.max;
}

Bound bound_of(const ErrorNorms& seen, std::span<const double> exact, const Precision& precision,
               double repeats, bool of_rounding) {
  const double count = std::max<double>(1, static_cast<double>(exact.size()));
  const double growth = std::sqrt(repeats);
  const bool stored_narrow = precision.storage != precision.master;
  double factor = is_narrow(precision) ? narrow_tolerance_factor : tolerance_factor * growth;
  if (stored_narrow && (of_rounding || is_only_rounding(seen, exact, precision)))
    factor *= correlated_rounding_factor;
  factor *= 1 + small_sample / std::sqrt(count);
  const double floor = floor_roundings * unit_roundoff(precision.master) * growth;
  return {factor * seen.max + floor * largest(exact), factor * seen.l2 + floor};
}

Bound widened(const Bound& bound, double relative, std::span<const double> exact) {
  return {bound.max + relative * largest(exact), bound.l2 + relative};
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
