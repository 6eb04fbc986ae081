#include "harness/core/shift.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <vector>

namespace assay {
namespace {

void require(bool holds, const char* what) {
  if (!holds) throw std::invalid_argument(what);
}

// Multiplies the polynomial by (1 - x^up) / (1 - x^down), exactly where the quotient is a polynomial.
void multiply_by_ratio(std::vector<double>& counts, std::size_t up, std::size_t down) {
  for (std::size_t i = counts.size(); i-- > up;) counts[i] -= counts[i - up];
  for (std::size_t i = down; i < counts.size(); ++i) counts[i] += counts[i - down];
}

// P(U = u) for u = 0 .. m n: the Gaussian binomial coefficient over C(m + n, m). Built factor by factor, each
// divided by the ratio of binomials, so that nothing overflows.
std::vector<double> mann_whitney(std::size_t m, std::size_t n) {
  std::vector<double> probability(m * n + 1, 0.0);
  probability[0] = 1;
  for (std::size_t i = 1; i <= m; ++i) {
    multiply_by_ratio(probability, n + i, i);
    for (double& p : probability) p *= static_cast<double>(i) / static_cast<double>(n + i);
  }
  return probability;
}

// P(W = w) for w = 0 .. n (n + 1) / 2.
std::vector<double> signed_rank(std::size_t n) {
  std::vector<double> probability(n * (n + 1) / 2 + 1, 0.0);
  probability[0] = 1;
  for (std::size_t rank = 1; rank <= n; ++rank) {
    for (std::size_t w = probability.size(); w-- > 0;)
      probability[w] = 0.5 * (probability[w] + (w >= rank ? probability[w - rank] : 0.0));
  }
  return probability;
}

// The middle of `values` and the interval between the ranks that `null` allows; null[k] is the probability of
// k values on one side of the truth.
Shift between_ranks(std::vector<double> values, const std::vector<double>& null, double confidence) {
  std::sort(values.begin(), values.end());
  Shift shift{median(values), std::nullopt};
  // 1 - 0.9 is a little less than 2 / C(6, 3).
  const double tail = 0.5 * (1 - confidence) + 1e-12;
  double below = 0;
  std::size_t ranks = 0;  // how many values may be cut off at either end, plus one
  while (ranks < null.size() && below + null[ranks] <= tail) below += null[ranks++];
  if (ranks == 0 || 2 * ranks > values.size() + 1) return shift;
  shift.interval = Interval{values[ranks - 1], values[values.size() - ranks], 1 - 2 * below};
  return shift;
}

}  // namespace

Shift unpaired_shift(std::span<const double> a, std::span<const double> b, double confidence) {
  require(!a.empty() && !b.empty(), "[shift] a sample is empty");
  require(confidence > 0 && confidence < 1, "[shift] the confidence is not between 0 and 1");
  std::vector<double> differences;
  differences.reserve(a.size() * b.size());
  for (const double x : a)
    for (const double y : b) differences.push_back(y - x);
  return between_ranks(std::move(differences), mann_whitney(a.size(), b.size()), confidence);
}

Shift paired_shift(std::span<const double> differences, double confidence) {
  require(!differences.empty(), "[shift] there is no pair");
  require(confidence > 0 && confidence < 1, "[shift] the confidence is not between 0 and 1");
  std::vector<double> averages;
  averages.reserve(differences.size() * (differences.size() + 1) / 2);
  for (std::size_t i = 0; i < differences.size(); ++i)
    for (std::size_t j = i; j < differences.size(); ++j)
      averages.push_back(0.5 * (differences[i] + differences[j]));
  return between_ranks(std::move(averages), signed_rank(differences.size()), confidence);
}

double attainable_unpaired(int m, int n) {
  double arrangements = 1;
  for (int i = 1; i <= m; ++i) arrangements *= static_cast<double>(n + i) / i;
  return 1 - 2 / arrangements;
}

double attainable_paired(int n) { return 1 - 2 / std::exp2(n); }

}  // namespace assay
