// By how much one sample lies above another: Hodges-Lehmann estimates with exact, distribution-free intervals
// (Hodges & Lehmann 1963; the ranks from the null distributions of Mann & Whitney 1947 and Wilcoxon 1945).
#pragma once

#include <optional>
#include <span>

#include "harness/core/statistics.hpp"

namespace assay {

struct Shift {
  double estimate = 0;
  std::optional<Interval> interval;  // nothing when so few values cannot attain the confidence
};

// b over a, for samples that have nothing to do with each other: the median of all differences b[j] - a[i],
// and the differences of rank k + 1 from either end with the largest k for which P(U <= k) <= (1 -
// confidence) / 2. Throws std::invalid_argument when either is empty or confidence is not in (0, 1).
Shift unpaired_shift(std::span<const double> a, std::span<const double> b, double confidence);

// Of the differences of pairs: the median of the Walsh averages (d[i] + d[j]) / 2, i <= j, and its interval
// by the signed-rank distribution in the same way.
Shift paired_shift(std::span<const double> differences, double confidence);

// The highest confidence that any interval of so many values can attain: 1 - 2 / C(m + n, m), and 1 - 2 /
// 2^n.
double attainable_unpaired(int m, int n);
double attainable_paired(int n);

}  // namespace assay
