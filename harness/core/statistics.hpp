// Statistics of a sample, and the shift of paired samples.
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

// The mean of the two middle values if their number is even. Throws std::invalid_argument if empty.
double median(std::span<const double> values);
// Neither may be empty.
double mean(std::span<const double> values);
double squares_about_mean(std::span<const double> values);  // their sum
// Linear interpolation between order statistics (type 7 of Hyndman & Fan 1996). p in [0, 1].
double quantile(std::span<const double> values, double p);
// The narrowest symmetric order-statistic interval with at least `confidence`; nothing with fewer than six
// values or if no interval attains it.
std::optional<Interval> median_interval(std::span<const double> values, double confidence = 0.95);
// The smallest of the values that is at least the quantile p of their distribution with `confidence`: an order statistic,
// exact for independent values of any distribution. At least the second largest of them, so that one value does not
// decide; nothing with fewer than values_for_quantile() values. p and confidence in (0, 1).
std::optional<double> quantile_bound(std::span<const double> values, double p, double confidence);
// The number of values of which the second largest is such a bound: the smallest n with P(Binomial(n, 1 - p) <= 1) <=
// 1 - confidence. At 99 % it is 64, 662 and 6,636 for the 90th, 99th and 99.9th percentile, the numbers of queries that
// the early stopping of MLPerf Inference asks.
int values_for_quantile(double p, double confidence);
// x with P(N(0, 1) <= x) = p, to 1e-12. p in (0, 1); throws std::invalid_argument.
double normal_quantile(double p);
// The same for Student's t with `degrees` degrees of freedom, at least 1, to 1e-9 of the quantile (the
// distribution by Abramowitz & Stegun 1964, 26.7.3 and 26.7.4).
double student_t_quantile(double p, int degrees);
// Ratios a[i] / b[i] of the rounds in which both exist.
std::vector<double> paired_ratios(std::span<const std::optional<double>> a,
                                  std::span<const std::optional<double>> b);

// A shift: the Hodges-Lehmann estimate with a distribution-free interval (Hodges & Lehmann 1963; the ranks from the null
// distribution of Wilcoxon 1945). It is exact up to 584 pairs. Above that, the normal distribution replaces the null
// distribution, which takes too long.
struct Shift {
  double estimate = 0;
  std::optional<Interval> interval;  // nothing if there are too few values for the confidence
};

// For the differences of pairs: the median of the Walsh averages (d[i] + d[j]) / 2, i <= j, and those of rank k + 1 from
// either end with the largest k for which P(W <= k) <= (1 - confidence) / 2. Throws std::invalid_argument if there is no
// pair, or if confidence is not in (0, 1).
Shift paired_shift(std::span<const double> differences, double confidence);

// The highest confidence that an interval of this number of pairs can attain: 1 - 2 / 2^n.
double attainable_paired(int n);

}  // namespace assay
