#include "harness/conductor/compare/time_judge.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include <fmt/format.h>

#include "harness/core/statistics.hpp"

namespace assay {
namespace {

constexpr int max_forks = 1000;
constexpr double suggested_power = 0.8;  // of a suggested number of forks

// The factor by which a planned interval is wider, so that it decides with probability `suggested_power`.
double with_power(double confidence) {
  return 1 + normal_quantile(suggested_power) / normal_quantile(0.5 + 0.5 * confidence);
}

std::vector<double> logarithms(std::span<const double> values, bool higher_is_better) {
  std::vector<double> result;
  for (const double value : values) result.push_back(higher_is_better ? -std::log(value) : std::log(value));
  return result;
}

bool all_positive(std::span<const double> values) {
  return std::all_of(values.begin(), values.end(),
                     [](double value) { return std::isfinite(value) && value > 0; });
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

// An interval shrinks with the root of the number of forks; the difference between two runs does not.
std::optional<int> forks_to_decide(double half_width, double floor, double distance, double confidence,
                                   int forks, int min_forks) {
  if (distance <= floor) return std::nullopt;
  const double wanted = std::sqrt(distance * distance - floor * floor);
  const double factor = std::max(1.0, with_power(confidence) * half_width / wanted);
  const double needed = std::ceil(forks * factor * factor) + 1;
  if (needed > max_forks) return std::nullopt;
  return std::max(static_cast<int>(needed), min_forks);
}

struct Design {
  const char* unit;  // of replication: "forks per side"
  int forks, min_forks;
  double attainable;
  double floor;
};

void decide(CellVerdict& cell, const Shift& shift, const Design& design, const JudgeSettings& settings,
            std::optional<int> by_spread) {
  cell.ratio = std::exp(shift.estimate);
  const double edge = std::log1p(settings.threshold);
  if (!shift.interval) {
    cell.forks_needed = std::max(design.min_forks, by_spread.value_or(design.min_forks));
    cell.reason = fmt::format(
        "{} {} reach a confidence of at most {:.5g} %, but {:.5g} % is required; use about {}", design.forks,
        design.unit, 100 * design.attainable, 100 * settings.confidence, *cell.forks_needed);
    return;
  }
  const double below = std::hypot(shift.estimate - shift.interval->lower, design.floor);
  const double above = std::hypot(shift.interval->upper - shift.estimate, design.floor);
  const double lower = shift.estimate - below, upper = shift.estimate + above;
  cell.lower = std::exp(lower);
  cell.upper = std::exp(upper);
  cell.confidence = shift.interval->confidence;
  if (lower > 0 && shift.estimate >= edge) {
    cell.verdict = Verdict::slower;
  } else if (upper < 0 && shift.estimate <= -edge) {
    cell.verdict = Verdict::faster;
  } else if (lower >= -edge && upper <= edge) {
    cell.verdict = Verdict::same;
  } else {
    const double half = 0.5 * (shift.interval->upper - shift.interval->lower);
    cell.forks_needed = forks_to_decide(half, design.floor, distance_to_decision(shift.estimate, edge),
                                        settings.confidence, design.forks, design.min_forks);
    cell.reason =
        cell.forks_needed
            ? fmt::format("the interval contains both no change and a change above {:.3g} %; use about {} {}",
                          100 * settings.threshold, *cell.forks_needed, design.unit)
            : fmt::format(
                  "the interval contains both no change and a change above {:.3g} %, and more {} would not decide "
                  "it on this machine; use `assay ab`",
                  100 * settings.threshold, design.unit);
  }
}

}  // namespace

double run_half_width(const RunSpread& between_runs, double confidence) {
  if (between_runs.deviation <= 0) return 0;
  const double p = 0.5 + 0.5 * confidence;
  const double quantile =
      between_runs.degrees > 0 ? student_t_quantile(p, between_runs.degrees) : normal_quantile(p);
  return quantile * std::numbers::sqrt2 * between_runs.deviation;
}

int min_forks_for(double confidence) {
  int forks = 1;
  while (forks < max_forks && attainable_unpaired(forks, forks) < confidence) ++forks;
  return forks;
}

int min_rounds_for(double confidence) {
  int rounds = 1;
  while (rounds < max_forks && attainable_paired(rounds) < confidence) ++rounds;
  return rounds;
}

std::optional<int> forks_for(double spread, const RunSpread& between_runs, double distance,
                             double confidence) {
  const double floor = run_half_width(between_runs, confidence);
  if (distance <= floor) return std::nullopt;
  const double wanted = std::sqrt(distance * distance - floor * floor);
  // The standard deviation of the estimate for a normal distribution: the efficiency of the median of
  // differences relative to the mean is 3 / pi.
  const double z = normal_quantile(0.5 + 0.5 * confidence) + normal_quantile(suggested_power);
  const double needed = std::ceil(2 * std::numbers::pi / 3 * std::pow(z * spread / wanted, 2));
  if (needed > max_forks) return std::nullopt;
  return std::max(static_cast<int>(needed), min_forks_for(confidence));
}

CellVerdict judge_times(std::span<const double> base, std::span<const double> current,
                        const JudgeSettings& settings) {
  CellVerdict cell;
  cell.base_forks = static_cast<int>(base.size());
  cell.current_forks = static_cast<int>(current.size());
  if (base.empty() || current.empty() || !all_positive(base) || !all_positive(current)) {
    cell.reason = "one side has no fork that counts";
    return cell;
  }
  const auto before = logarithms(base, settings.higher_is_better);
  const auto after = logarithms(current, settings.higher_is_better);
  const Shift shift = unpaired_shift(before, after, settings.confidence);
  const double spread = std::max(spread_of(before), spread_of(after));
  const double distance = distance_to_decision(shift.estimate, std::log1p(settings.threshold));
  decide(cell, shift,
         {"forks per side", std::min(cell.base_forks, cell.current_forks), min_forks_for(settings.confidence),
          attainable_unpaired(cell.base_forks, cell.current_forks),
          run_half_width(settings.between_runs, settings.confidence)},
         settings, forks_for(spread, settings.between_runs, distance, settings.confidence));
  return cell;
}

CellVerdict judge_rounds(std::span<const double> base, std::span<const double> current,
                         const JudgeSettings& settings) {
  CellVerdict cell;
  cell.base_forks = cell.current_forks = static_cast<int>(base.size());
  if (base.empty() || base.size() != current.size() || !all_positive(base) || !all_positive(current)) {
    cell.reason = "no round has a value of both sides";
    return cell;
  }
  const auto before = logarithms(base, settings.higher_is_better);
  const auto after = logarithms(current, settings.higher_is_better);
  std::vector<double> differences;
  for (std::size_t i = 0; i < before.size(); ++i) differences.push_back(after[i] - before[i]);
  const Shift shift = paired_shift(differences, settings.confidence);
  const double distance = distance_to_decision(shift.estimate, std::log1p(settings.threshold));
  decide(
      cell, shift,
      {"rounds", cell.base_forks, min_rounds_for(settings.confidence), attainable_paired(cell.base_forks), 0},
      settings,
      // The variance of a difference is that of two forks.
      forks_for(spread_of(differences) / std::numbers::sqrt2, {}, distance, settings.confidence));
  return cell;
}

}  // namespace assay
