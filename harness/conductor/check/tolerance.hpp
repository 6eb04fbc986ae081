// How far from the oracle a tensor may be. docs/explanation/equivalence.md has the reasoning and the
// measurements.
#pragma once

#include <span>

#include "harness/core/numerics.hpp"
#include "harness/graph/passes/precision.hpp"
#include "harness/report/report.hpp"

namespace assay {

// Maximum error of a correct backend relative to the largest error in the perturbed runs. In the accumulation
// type, a backend sums in another order, with other blocks and fused multiply-adds, and the runs cannot know
// which. For narrower storage its rounding is nearly all of the error, and the runs round as the backend
// does. A mistake is larger by orders of magnitude.
inline constexpr double tolerance_factor = 8;
inline constexpr double narrow_tolerance_factor = 3;
// Additional factor, for narrower storage, for what only rounding moves (the gradient of a bias in front of a batch
// norm, the bias and its moments): the rounding errors may be correlated, see docs/explanation/equivalence.md. Such
// a parameter changes no result.
inline constexpr double correlated_rounding_factor = 8;
// There are few runs, so the error of a tensor with few elements is poorly known: the bound for n elements is
// multiplied by 1 + small_sample / sqrt(n).
inline constexpr double small_sample = 2;
// Minimum bound, in roundings of the tensor's largest element in the master type.
inline constexpr double floor_roundings = 8;

// The largest absolute value; 0 if there is none.
double largest(std::span<const double> values);

// The verdict of a tensor that is missing, misshapen or not finite.
TensorVerdict beyond_all_measure(std::string name);

// Whether operands are rounded to a narrower type than the accumulation type.
bool is_narrow(const Precision& precision);

// The maximum of the two norms of an error.
using Bound = ErrorNorms;

// `seen`: the largest errors of the perturbed runs against `exact`. `repeats`: the tensor is summed over a
// batch that contains each sample that many times, and the perturbed runs summed each only once. The rounding
// errors of a sum grow as the root of its length, so those of the master type grow by sqrt(repeats); those of
// a narrower storage type do not, because every repetition of a sample is rounded in the same way.
// `of_rounding`: the tensor is moved by a gradient that is zero except for rounding.
Bound bound_of(const ErrorNorms& seen, std::span<const double> exact, const Precision& precision,
               double repeats = 1, bool of_rounding = false);

// Allows a relative change of the tensor on top.
Bound widened(const Bound& bound, double relative, std::span<const double> exact);

// Whether the tensor is zero except for rounding: its exact values are smaller than the errors of the runs.
bool is_only_rounding(const ErrorNorms& seen, std::span<const double> exact, const Precision& precision);

// Errors of `got` against `exact` (equally long), with the ratio to the bound. beyond_measure if not finite.
TensorVerdict compare(std::string name, std::span<const double> got, std::span<const double> exact,
                      const Bound& bound);

}  // namespace assay
