#include "harness/gate/time_judge.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "harness/measure/shift.hpp"

namespace assay {
namespace {

constexpr int most_forks = 1000;
// Of a normal distribution: the half width of an interval of about 95 %.
constexpr double normal_95 = 1.96;

std::vector<double> logarithms(std::span<const double> values, bool higher_is_better) {
  std::vector<double> result;
  for (const double value : values) result.push_back(higher_is_better ? -std::log(value) : std::log(value));
  return result;
}

bool all_positive(std::span<const double> values) {
  return std::all_of(values.begin(), values.end(),
                     [](double value) { return std::isfinite(value) && value > 0; });
}

// An interval shrinks with the root of the forks; what two runs differ by does not, and is a floor.
std::optional<int> forks_that_would_do(double half_width, double floor, double distance, int forks,
                                       double confidence) {
  if (distance <= floor) return std::nullopt;
  const double wanted = distance - floor;
  const double factor = std::max(1.0, half_width / wanted);
  const double needed = std::ceil(forks * factor * factor) + 1;
  if (needed > most_forks) return std::nullopt;
  return std::max(static_cast<int>(needed), least_forks(confidence));
}

}  // namespace

std::string_view to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::faster:
      return "faster";
    case Verdict::slower:
      return "slower";
    case Verdict::same:
      return "same";
    case Verdict::inconclusive:
      return "inconclusive";
    case Verdict::missing:
      return "missing";
    case Verdict::added:
      return "new";
    case Verdict::broken:
      return "broken";
  }
  return "?";
}

int least_forks(double confidence) {
  int forks = 1;
  while (forks < most_forks && attainable_unpaired(forks, forks) < confidence) ++forks;
  return forks;
}

CellVerdict judge_times(std::span<const double> base, std::span<const double> current,
                        const JudgeSettings& settings) {
  CellVerdict cell;
  cell.base_forks = static_cast<int>(base.size());
  cell.current_forks = static_cast<int>(current.size());
  if (base.empty() || current.empty() || !all_positive(base) || !all_positive(current)) {
    cell.reason = "a side has no fork that counts";
    return cell;
  }
  const Shift shift = unpaired_shift(logarithms(base, settings.higher_is_better),
                                     logarithms(current, settings.higher_is_better), settings.confidence);
  cell.ratio = std::exp(shift.estimate);
  const int forks = std::min(cell.base_forks, cell.current_forks);
  if (!shift.interval) {
    cell.forks_needed = least_forks(settings.confidence);
    cell.reason = fmt::format(
        "{} against {} forks attain {:.2f} % at the most, {:.2f} % is asked: {} a side do", cell.base_forks,
        cell.current_forks, 100 * attainable_unpaired(cell.base_forks, cell.current_forks),
        100 * settings.confidence, *cell.forks_needed);
    return cell;
  }
  // Two runs of one build differ by this much, whatever their forks say.
  const double floor = normal_95 * std::sqrt(2.0) * settings.between_runs;
  const double below = std::hypot(shift.estimate - shift.interval->lower, floor);
  const double above = std::hypot(shift.interval->upper - shift.estimate, floor);
  const double lower = shift.estimate - below, upper = shift.estimate + above;
  cell.lower = std::exp(lower);
  cell.upper = std::exp(upper);
  cell.confidence = shift.interval->confidence;
  const double edge = std::log1p(settings.threshold);
  if (lower > 0 && shift.estimate >= edge) {
    cell.verdict = Verdict::slower;
  } else if (upper < 0 && shift.estimate <= -edge) {
    cell.verdict = Verdict::faster;
  } else if (lower >= -edge && upper <= edge) {
    cell.verdict = Verdict::same;
  } else {
    // A large estimate has to lose the 1 from its interval, a small one to draw it within the threshold.
    const double size = std::abs(shift.estimate);
    const double distance = size >= edge ? size : edge - size;
    const double half = 0.5 * (shift.interval->upper - shift.interval->lower);
    cell.forks_needed = forks_that_would_do(half, floor, distance, forks, settings.confidence);
    cell.reason =
        cell.forks_needed
            ? fmt::format(
                  "the interval holds both no change and one past {:.3g} %: about {} forks a side would do",
                  100 * settings.threshold, *cell.forks_needed)
            : fmt::format(
                  "the interval holds both no change and one past {:.3g} %: more forks would not decide "
                  "it here; ask `assay ab`",
                  100 * settings.threshold);
  }
  return cell;
}

}  // namespace assay
