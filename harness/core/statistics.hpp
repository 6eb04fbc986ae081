// Medians with exact, distribution-free intervals, and paired ratios.
#pragma once

#include <optional>
#include <span>
#include <vector>

namespace assay {

struct Interval {
  double lower = 0, upper = 0;
  double confidence =
      0;  // attained: 1 - 2 P(Binomial(n, 1/2) <= k - 1), bounds are the order statistics k and n+1-k
};

// Throws std::invalid_argument when empty. Mean of the two middle values for an even count.
double median(std::span<const double> values);
// Linear interpolation between order statistics (type 7 of Hyndman & Fan 1996). p in [0, 1].
double quantile(std::span<const double> values, double p);
// The narrowest symmetric order-statistic interval with at least `confidence`; nothing below six values or
// when none attains it.
std::optional<Interval> median_interval(std::span<const double> values, double confidence = 0.95);
// x with P(N(0, 1) <= x) = p, to 1e-12. p in (0, 1); throws std::invalid_argument.
double normal_quantile(double p);
// Ratios a[i] / b[i] of the rounds in which both are there.
std::vector<double> paired_ratios(std::span<const std::optional<double>> a,
                                  std::span<const std::optional<double>> b);

}  // namespace assay
