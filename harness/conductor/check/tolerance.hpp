// How far from the oracle a tensor may be. docs/explanation/equivalence.md has the reasoning and the measurements.
#pragma once

#include <span>
#include <vector>

#include "harness/core/numerics.hpp"
#include "harness/graph/passes/precision.hpp"
#include "harness/report/report.hpp"

namespace assay {

// How much larger than the largest error seen in the perturbed runs an honest error may be. In the type that
// sums, a backend sums in another order, with other blocks and fused multiply-adds, and the runs cannot know
// which. Where storage is narrower its rounding is nearly all of the error, and the runs round as the backend
// does. A mistake is larger by orders of magnitude.
inline constexpr double tolerance_factor = 8;
inline constexpr double narrow_tolerance_factor = 3;
// A tensor that is exactly zero but for rounding (the bias in front of a batch norm) may be off by this many
// times more where storage is narrower: docs/explanation/equivalence.md says why its roundings can be alike.
inline constexpr double alike_roundings = 3;
// The runs are few, so the error of a tensor of few elements is itself poorly known: n elements get
// 1 + small_sample / sqrt(n) times as much.
inline constexpr double small_sample = 2;
// And never less than this many roundings of the tensor's largest element in the master type.
inline constexpr double floor_roundings = 8;

// Stands for a ratio beyond measure: a missing, misshapen or non-finite tensor. Finite, because a report is
// strict JSON.
inline constexpr double beyond_measure = 1e9;

// What the two norms of an error may be.
using Bound = ErrorNorms;

// `seen` are the largest errors of the perturbed runs against `exact`. `repeats`: the tensor is summed over a
// batch in which each sample stands that often, and the perturbed runs summed each but once. The rounding
// errors of a sum grow as the root of its length, so the errors of the master type do by sqrt(repeats); those
// of a narrower storage type do not, because every repetition of a sample is rounded alike.
Bound bound_of(const ErrorNorms& seen, std::span<const double> exact, const Precision& precision,
               double repeats = 1);

// Whether the tensor is zero but for rounding: its exact values are below what the runs were off by.
bool is_rounding_alone(const ErrorNorms& seen, std::span<const double> exact, const Precision& precision);

// Errors of `got` against `exact` (equally long), with the ratio to the bound. Not finite: beyond_measure.
TensorVerdict compare(std::string name, std::span<const double> got, std::span<const double> exact,
                      const Bound& bound);

// What each element may be off by. `deviations`: the largest of the perturbed runs at each element of `exact`, which
// has `rows` rows of one length. An element counts as a tensor of one element whose perturbed runs were off by its own
// largest deviation and by what is typical of its row and its column.
std::vector<double> element_bounds(std::span<const double> deviations, std::span<const double> exact,
                                   std::size_t rows, const Precision& precision, double repeats = 1);

// Where an element is further over its bound than the tensor is over its own, the verdict becomes that of the element.
void compare_elements(TensorVerdict& verdict, std::span<const double> got, std::span<const double> exact,
                      std::span<const double> bounds);

}  // namespace assay
