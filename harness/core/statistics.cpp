#include "harness/core/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <stdexcept>

namespace assay {
namespace {

constexpr std::size_t fewest_for_bounds = 6;

std::vector<double> sorted(std::span<const double> values, const char* what) {
  if (values.empty()) throw std::invalid_argument(what);
  std::vector<double> copy(values.begin(), values.end());
  std::sort(copy.begin(), copy.end());
  return copy;
}

// P(Binomial(n, 1/2) <= k), by logarithms so that large n neither overflow nor vanish.
double binomial_half_cdf(std::size_t n, std::size_t k) {
  double sum = 0;
  for (std::size_t i = 0; i <= k; ++i) {
    const double log_choose = std::lgamma(static_cast<double>(n) + 1) -
                              std::lgamma(static_cast<double>(i) + 1) -
                              std::lgamma(static_cast<double>(n - i) + 1);
    sum += std::exp(log_choose - static_cast<double>(n) * std::log(2.0));
  }
  return sum;
}

}  // namespace

double median(std::span<const double> values) {
  const std::vector<double> order = sorted(values, "[median] got no values");
  const std::size_t half = order.size() / 2;
  return order.size() % 2 == 1 ? order[half] : order[half - 1] + (order[half] - order[half - 1]) / 2;
}

double quantile(std::span<const double> values, double p) {
  if (!(p >= 0 && p <= 1)) throw std::invalid_argument("[quantile] p is not in [0, 1]");
  const std::vector<double> order = sorted(values, "[quantile] got no values");
  const double position = p * static_cast<double>(order.size() - 1);
  const std::size_t below = static_cast<std::size_t>(position);
  const std::size_t above = std::min(below + 1, order.size() - 1);
  return order[below] + (position - static_cast<double>(below)) * (order[above] - order[below]);
}

std::optional<Interval> median_interval(std::span<const double> values, double confidence) {
  if (values.size() < fewest_for_bounds) return std::nullopt;
  const std::vector<double> order = sorted(values, "[median_interval] got no values");
  const std::size_t n = order.size();
  std::optional<Interval> best;
  for (std::size_t k = 1; k <= n / 2; ++k) {  // each k is narrower than the one before and attains less
    const double attained = 1 - 2 * binomial_half_cdf(n, k - 1);
    if (attained < confidence) break;
    best = Interval{order[k - 1], order[n - k], attained};
  }
  return best;
}

// Newton's steps from the tail's first guess; the density is never 0 where a double p can reach.
double normal_quantile(double p) {
  if (!(p > 0 && p < 1)) throw std::invalid_argument("[normal_quantile] p is not in (0, 1)");
  const double tail = std::min(p, 1 - p);
  const double t = std::sqrt(-2 * std::log(tail));
  // Abramowitz & Stegun 26.2.23, off by less than 4.5e-4.
  double x =
      t - (2.515517 + t * (0.802853 + t * 0.010328)) / (1 + t * (1.432788 + t * (0.189269 + t * 0.001308)));
  for (int i = 0; i < 4; ++i) {
    const double above = 0.5 * std::erfc(x / std::sqrt(2.0));
    const double density = std::exp(-0.5 * x * x) / std::sqrt(2 * std::numbers::pi);
    x += (above - tail) / density;
  }
  return p < 0.5 ? -x : x;
}

std::vector<double> paired_ratios(std::span<const std::optional<double>> a,
                                  std::span<const std::optional<double>> b) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    if (a[i] && b[i]) ratios.push_back(*a[i] / *b[i]);
  return ratios;
}

}  // namespace assay
