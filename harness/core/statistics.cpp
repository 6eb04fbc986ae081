#include "harness/core/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <stdexcept>
#include <vector>

namespace assay {
namespace {

constexpr std::size_t min_for_bounds = 6;

std::vector<double> sorted(std::span<const double> values, const char* what) {
  if (values.empty()) throw std::invalid_argument(what);
  std::vector<double> copy(values.begin(), values.end());
  std::sort(copy.begin(), copy.end());
  return copy;
}

// P(Binomial(n, 1/2) = k), by logarithms so that a large n neither overflows nor vanishes.
double binomial_half(std::size_t n, std::size_t k) {
  const double log_choose = std::lgamma(static_cast<double>(n) + 1) -
                            std::lgamma(static_cast<double>(k) + 1) -
                            std::lgamma(static_cast<double>(n - k) + 1);
  return std::exp(log_choose - static_cast<double>(n) * std::log(2.0));
}

}  // namespace

double median(std::span<const double> values) {
  const std::vector<double> order = sorted(values, "[median] got no values");
  const std::size_t half = order.size() / 2;
  return order.size() % 2 == 1 ? order[half] : order[half - 1] + (order[half] - order[half - 1]) / 2;
}

double mean(std::span<const double> values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

double squares_about_mean(std::span<const double> values) {
  const double middle = mean(values);
  double sum = 0;
  for (const double value : values) sum += (value - middle) * (value - middle);
  return sum;
}

double quantile(std::span<const double> values, double p) {
  if (!(p >= 0 && p <= 1)) throw std::invalid_argument("[quantile] p is not in [0, 1]");
  if (values.empty()) throw std::invalid_argument("[quantile] got no values");
  std::vector<double> copy(values.begin(), values.end());
  const double position = p * static_cast<double>(copy.size() - 1);
  const auto below = copy.begin() + static_cast<std::ptrdiff_t>(position);
  std::nth_element(copy.begin(), below, copy.end());  // a report may have millions
  const double above = below + 1 == copy.end() ? *below : *std::min_element(below + 1, copy.end());
  return *below + (position - std::floor(position)) * (above - *below);
}

int values_for_quantile(double p, double confidence) {
  if (!(p > 0 && p < 1 && confidence > 0 && confidence < 1))
    throw std::invalid_argument("[values_for_quantile] p or confidence is not in (0, 1)");
  const auto chance = [p](double n) { return std::pow(p, n) + n * (1 - p) * std::pow(p, n - 1); };
  double low = 1, high = 2;  // the chance falls with n
  while (chance(high) > 1 - confidence) high *= 2;
  while (high - low > 1) {
    const double middle = std::floor((low + high) / 2);
    (chance(middle) > 1 - confidence ? low : high) = middle;
  }
  return static_cast<int>(high);
}

std::optional<double> quantile_bound(std::span<const double> values, double p, double confidence) {
  const auto n = static_cast<double>(values.size());
  if (n < values_for_quantile(p, confidence)) return std::nullopt;
  // The k + 1 largest values reach the quantile unless at most k lie above it.
  std::size_t k = 0;
  double below = 0;  // P(Binomial(n, 1 - p) <= k)
  for (std::size_t next = 0; next < values.size(); ++next) {
    const auto i = static_cast<double>(next);
    below += std::exp(std::lgamma(n + 1) - std::lgamma(i + 1) - std::lgamma(n - i + 1) + i * std::log1p(-p) +
                      (n - i) * std::log(p));
    if (below > 1 - confidence) break;
    k = next;
  }
  std::vector<double> copy(values.begin(), values.end());
  const auto bound = copy.end() - 1 - static_cast<std::ptrdiff_t>(k);
  std::nth_element(copy.begin(), bound, copy.end());
  return *bound;
}

std::optional<Interval> median_interval(std::span<const double> values, double confidence) {
  if (values.size() < min_for_bounds) return std::nullopt;
  const std::vector<double> order = sorted(values, "[median_interval] got no values");
  const std::size_t n = order.size();
  std::optional<Interval> best;
  double below = 0;                           // P(Binomial(n, 1/2) <= k - 1)
  for (std::size_t k = 1; k <= n / 2; ++k) {  // each k gives a narrower interval with a lower confidence
    below += binomial_half(n, k - 1);
    const double attained = 1 - 2 * below;
    if (attained < confidence) break;
    best = Interval{order[k - 1], order[n - k], attained};
  }
  return best;
}

// Newton's method from the tail's first guess; the density is never 0 where a double p can reach.
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

namespace {

// P(|T| <= t) with t = sqrt(degrees) tan(angle), angle in [0, pi/2].
double student_t_inside(double angle, int degrees) {
  const double sine = std::sin(angle), cosine = std::cos(angle);
  const bool odd = degrees % 2 == 1;
  double term = odd ? cosine : 1, sum = degrees == 1 ? 0 : term;
  for (int k = odd ? 2 : 1; k <= degrees - 3; k += 2) {
    term *= cosine * cosine * k / (k + 1);
    sum += term;
  }
  return odd ? 2 / std::numbers::pi * (angle + sine * sum) : sine * sum;
}

}  // namespace

double student_t_quantile(double p, int degrees) {
  if (!(p > 0 && p < 1) || degrees < 1)
    throw std::invalid_argument("[student_t_quantile] p is not in (0, 1), or degrees is below 1");
  const double inside = std::abs(2 * p - 1);
  double low = 0, high = std::numbers::pi / 2;
  for (int i = 0; i < 200 && low < high; ++i) {
    const double middle = 0.5 * (low + high);
    if (middle <= low || middle >= high) break;
    (student_t_inside(middle, degrees) < inside ? low : high) = middle;
  }
  const double t = std::sqrt(degrees) * std::tan(0.5 * (low + high));
  return p < 0.5 ? -t : t;
}

std::vector<double> paired_ratios(std::span<const std::optional<double>> a,
                                  std::span<const std::optional<double>> b) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    if (a[i] && b[i]) ratios.push_back(*a[i] / *b[i]);
  return ratios;
}

namespace {

void require(bool holds, const char* what) {
  if (!holds) throw std::invalid_argument(what);
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

// The ends of an interval.
struct Cut {
  std::size_t ranks = 0;  // how many values may be cut off at either end, plus one
  double below = 0;       // the probability that the truth lies beyond them, on one side
};

// 1 - 0.9 is a little less than 2 / C(6, 3).
double tail_of(double confidence) { return 0.5 * (1 - confidence) + 1e-12; }

// null[k]: the probability of k values on one side of the truth.
Cut exact_cut(const std::vector<double>& null, double tail) {
  Cut cut;
  while (cut.ranks < null.size() && cut.below + null[cut.ranks] <= tail) cut.below += null[cut.ranks++];
  return cut;
}

// By the normal distribution with the same mean and variance, corrected for continuity.
Cut normal_cut(double mean, double variance, double tail) {
  const double deviation = std::sqrt(variance);
  const double ranks = std::floor(mean + 0.5 + deviation * normal_quantile(tail));
  if (!(ranks >= 1)) return {};
  return {static_cast<std::size_t>(ranks),
          0.5 * std::erfc((mean + 0.5 - ranks) / (deviation * std::numbers::sqrt2))};
}

constexpr double max_exact_steps = 1e8;  // a fraction of a second

Cut signed_rank_cut(std::size_t count, double tail) {
  const auto n = static_cast<double>(count);
  if (n * n * n / 2 <= max_exact_steps) return exact_cut(signed_rank(count), tail);
  return normal_cut(n * (n + 1) / 4, n * (n + 1) * (2 * n + 1) / 24, tail);
}

// The middle of `values` and the interval that the cut leaves.
Shift between_ranks(std::vector<double> values, const Cut& cut) {
  std::sort(values.begin(), values.end());
  Shift shift{median(values), std::nullopt};
  if (cut.ranks == 0 || 2 * cut.ranks > values.size() + 1) return shift;
  shift.interval = Interval{values[cut.ranks - 1], values[values.size() - cut.ranks], 1 - 2 * cut.below};
  return shift;
}

}  // namespace

Shift paired_shift(std::span<const double> differences, double confidence) {
  require(!differences.empty(), "[shift] got no pairs");
  require(confidence > 0 && confidence < 1, "[shift] the confidence is not between 0 and 1");
  std::vector<double> averages;
  averages.reserve(differences.size() * (differences.size() + 1) / 2);
  for (std::size_t i = 0; i < differences.size(); ++i)
    for (std::size_t j = i; j < differences.size(); ++j)
      averages.push_back(0.5 * (differences[i] + differences[j]));
  return between_ranks(std::move(averages), signed_rank_cut(differences.size(), tail_of(confidence)));
}

double attainable_paired(int n) { return 1 - 2 / std::exp2(n); }

}  // namespace assay
