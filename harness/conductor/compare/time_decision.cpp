#include "harness/conductor/compare/time_decision.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include <fmt/format.h>

#include "harness/core/statistics.hpp"
#include "harness/core/text.hpp"

namespace assay {
namespace {

constexpr int max_rounds = 1000;
constexpr double suggested_power = 0.8;  // of a suggested number of rounds

// The factor by which a planned interval is wider, so that it decides with probability `suggested_power`.
double with_power(double confidence) {
  return 1 + normal_quantile(suggested_power) / normal_quantile(0.5 + 0.5 * confidence);
}

bool all_finite(std::span<const double> values) {
  return std::ranges::all_of(values, [](double value) { return std::isfinite(value); });
}

bool all_positive(std::span<const double> values) {
  return std::ranges::all_of(values, [](double value) { return value > 0; });
}

// Robust against disturbed forks: 1.4826 times the median absolute deviation from the median.
double spread_of(const std::vector<double>& logs) {
  const double middle = median(logs);
  std::vector<double> distances;
  for (const double value : logs) distances.push_back(std::abs(value - middle));
  return 1.4826 * median(distances);
}

// The interval of a large estimate must exclude 1; that of a small one must be within the threshold.
double distance_to_decision(double estimate, double edge) {
  const double size = std::abs(estimate);
  return size >= edge ? size : edge - size;
}

// An interval shrinks with the root of the number of rounds.
std::optional<int> rounds_to_decide(double half_width, double distance, double confidence, int rounds) {
  if (distance <= 0) return std::nullopt;
  const double factor = std::max(1.0, with_power(confidence) * half_width / distance);
  const double needed = std::ceil(rounds * factor * factor) + 1;
  if (needed > max_rounds) return std::nullopt;
  return std::max(static_cast<int>(needed), min_rounds_for(confidence));
}

void decide(CellVerdict& cell, const Shift& shift, const Scale& scale, const DecisionSettings& settings,
            std::optional<int> by_spread) {
  const int rounds = cell.base_forks;
  const double edge = std::log1p(settings.threshold);
  if (!shift.interval) {
    if (scale.is_ratio()) cell.ratio = std::exp(shift.estimate);
    const int min_rounds = min_rounds_for(settings.confidence);
    cell.forks_needed = std::max(min_rounds, by_spread.value_or(min_rounds));
    cell.reason =
        fmt::format("with {} the confidence is at most {:.5g} %, but {:.5g} % is required; use about {}",
                    plural(rounds, "round"), 100 * attainable_paired(rounds), 100 * settings.confidence,
                    *cell.forks_needed);
    return;
  }
  const double lower = shift.interval->lower, upper = shift.interval->upper;
  scale.describe(cell, shift.estimate, lower, upper);
  cell.confidence = shift.interval->confidence;
  if (lower > 0 && shift.estimate >= edge) {
    cell.verdict = Verdict::slower;
  } else if (upper < 0 && shift.estimate <= -edge) {
    cell.verdict = Verdict::faster;
  } else if (lower >= -edge && upper <= edge) {
    cell.verdict = Verdict::same;
  } else {
    cell.forks_needed = rounds_to_decide(0.5 * (upper - lower), distance_to_decision(shift.estimate, edge),
                                         settings.confidence, rounds);
    cell.reason +=
        (cell.reason.empty() ? "" : "; ") +
        (cell.forks_needed
             ? fmt::format(
                   "the interval contains both no change and a change above {:.3g} %; use about {} rounds",
                   100 * settings.threshold, *cell.forks_needed)
             : fmt::format(
                   "the interval contains both no change and a change above {:.3g} %, and more rounds would not decide "
                   "it on this machine",
                   100 * settings.threshold));
  }
}

}  // namespace

Scale::Scale(std::span<const double> base, std::span<const double> current, bool higher_is_better)
    : sign_(higher_is_better ? -1 : 1) {
  if (all_positive(base) && all_positive(current)) return;
  unit_ =
      std::max(base.empty() ? 0 : std::abs(median(base)), current.empty() ? 0 : std::abs(median(current)));
  // Most values are 0: the largest one is the unit.
  if (unit_ == 0)
    for (const std::span<const double> side : {base, current})
      for (const double value : side) unit_ = std::max(unit_, std::abs(value));
  if (unit_ == 0) unit_ = 1;
}

std::vector<double> Scale::operator()(std::span<const double> values) const {
  std::vector<double> scaled;
  for (const double value : values) scaled.push_back(sign_ * (is_ratio() ? std::log(value) : value / unit_));
  return scaled;
}

void Scale::describe(CellVerdict& cell, double estimate, double lower, double upper) const {
  if (is_ratio()) {
    cell.ratio = std::exp(estimate);
    cell.lower = std::exp(lower);
    cell.upper = std::exp(upper);
    return;
  }
  const double a = sign_ * unit_ * (sign_ > 0 ? lower : upper),
               b = sign_ * unit_ * (sign_ > 0 ? upper : lower);
  cell.reason = fmt::format("a value is not above 0, so differences are compared: {:.3g} [{:.3g}, {:.3g}]",
                            sign_ * unit_ * estimate, a, b);
}

int min_rounds_for(double confidence) {
  int rounds = 1;
  while (rounds < max_rounds && attainable_paired(rounds) < confidence) ++rounds;
  return rounds;
}

std::optional<int> rounds_for(double spread, double distance, double confidence) {
  if (distance <= 0) return std::nullopt;
  // The standard deviation of the estimate for a normal distribution: the efficiency of the median of
  // Walsh averages relative to the mean is 3 / pi.
  const double z = normal_quantile(0.5 + 0.5 * confidence) + normal_quantile(suggested_power);
  const double needed = std::ceil(std::numbers::pi / 3 * std::pow(z * spread / distance, 2));
  if (needed > max_rounds) return std::nullopt;
  return std::max(static_cast<int>(needed), min_rounds_for(confidence));
}

CellVerdict decide_rounds(std::span<const double> base, std::span<const double> current,
                          const DecisionSettings& settings) {
  CellVerdict cell;
  cell.base_forks = cell.current_forks = static_cast<int>(base.size());
  if (base.empty() || base.size() != current.size() || !all_finite(base) || !all_finite(current)) {
    cell.reason = "no round has a value of both sides";
    return cell;
  }
  const Scale scale(base, current, settings.higher_is_better);
  const std::vector<double> before = scale(base), after = scale(current);
  std::vector<double> differences;
  for (std::size_t i = 0; i < before.size(); ++i) differences.push_back(after[i] - before[i]);
  const Shift shift = paired_shift(differences, settings.confidence);
  const double distance = distance_to_decision(shift.estimate, std::log1p(settings.threshold));
  decide(cell, shift, scale, settings, rounds_for(spread_of(differences), distance, settings.confidence));
  return cell;
}

}  // namespace assay
