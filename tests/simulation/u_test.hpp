// Like Google Benchmark's tools/compare.py: the Mann-Whitney U test over pooled repetitions.
#pragma once

#include <span>

namespace assay::simulation {

// Two-sided p, by the normal distribution with the corrections for ties and continuity, as
// scipy.stats.mannwhitneyu(alternative="two-sided", method="asymptotic") has it, which compare.py calls and
// which takes that method for samples of this size. 1 where all values are equal.
double mann_whitney_p(std::span<const double> a, std::span<const double> b);

}  // namespace assay::simulation
