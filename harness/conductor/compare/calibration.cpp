#include "harness/conductor/compare/calibration.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numbers>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "harness/conductor/compare/scatter.hpp"
#include "harness/conductor/compare/time_judge.hpp"
#include "harness/conductor/config/options.hpp"
#include "harness/core/paths.hpp"
#include "harness/core/statistics.hpp"
#include "harness/core/text.hpp"

namespace assay {
namespace {

constexpr std::array thresholds{0.01, 0.02, 0.03, 0.05, 0.07, 0.10, 0.15, 0.20, 0.30, 0.50};
constexpr int usual_forks = 12;
constexpr double power = 0.8;
constexpr double share_of_cells = 0.9;

// The change that 80 % of comparisons with `forks` forks per side report at that threshold: the estimate must
// reach the threshold, and its interval must exclude 1.
double visible_change(double within, const RunSpread& between, int forks, double threshold,
                      double confidence) {
  const double of_forks = std::numbers::pi / 3 * within * within / forks;
  const double error = std::sqrt(2 * (of_forks + between.deviation * between.deviation));
  const double half = std::hypot(normal_quantile(0.5 + 0.5 * confidence) * std::sqrt(2 * of_forks),
                                 run_half_width(between, confidence));
  return std::expm1(std::max(std::log1p(threshold), half) + normal_quantile(power) * error);
}

double twice(double threshold) { return 2 * threshold; }

// The minimum number of forks per side that detect twice the threshold. More forks detect smaller changes.
std::optional<int> forks_to_see(double within, const RunSpread& between, double threshold, double confidence,
                                int min_forks) {
  const auto seen = [&](int forks) {
    return visible_change(within, between, forks, threshold, confidence) <= twice(threshold);
  };
  int low = min_forks, high = 1000;
  if (!seen(high)) return std::nullopt;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (seen(middle))
      high = middle;
    else
      low = middle + 1;
  }
  return high;
}

RunSpread spread_between(const CellNoise& cell) { return {cell.between_runs, cell.degrees}; }

// Compares every two runs as if they were a baseline and a new report.
void compare_runs(CellNoise& cell, const std::vector<std::vector<double>>& runs, double threshold,
                  double confidence) {
  std::vector<double> changes;
  for (std::size_t i = 0; i < runs.size(); ++i)
    for (std::size_t j = i + 1; j < runs.size(); ++j) {
      JudgeSettings judge;
      judge.threshold = threshold;
      judge.confidence = confidence;
      const CellVerdict verdict = judge_times(runs[i], runs[j], judge);
      ++cell.comparisons;
      cell.alarms += verdict.verdict == Verdict::slower || verdict.verdict == Verdict::faster;
      changes.push_back(std::abs(std::log(*verdict.ratio)));
    }
  // The quartiles of few comparisons are unreliable.
  const double q1 = quantile(changes, 0.25), q3 = quantile(changes, 0.75);
  const double max_change = *std::max_element(changes.begin(), changes.end());
  cell.floor = std::expm1(changes.size() >= 10 ? q3 + 3 * (q3 - q1) : 2 * max_change);
}

void suggest(Calibration& calibration, double confidence) {
  const auto enough = [&](std::size_t count) {
    return static_cast<double>(count) >= share_of_cells * static_cast<double>(calibration.cells.size());
  };
  std::vector<int> wanted;
  for (const CellNoise& cell : calibration.cells)
    if (cell.forks_wanted) wanted.push_back(*cell.forks_wanted);
  std::sort(wanted.begin(), wanted.end());
  for (std::size_t i = 0; i < wanted.size() && !calibration.forks; ++i)
    if (enough(i + 1)) calibration.forks = wanted[i];
  const int forks = std::max(usual_forks, min_forks_for(confidence));
  for (const double threshold : thresholds) {
    const auto seen =
        std::count_if(calibration.cells.begin(), calibration.cells.end(), [&](const auto& cell) {
          return visible_change(cell.within_runs, spread_between(cell), forks, threshold, confidence) <=
                 twice(threshold);
        });
    if (!enough(static_cast<std::size_t>(seen))) continue;
    calibration.suggested_threshold = threshold;
    return;
  }
}

// All runs of one cell and metric.
struct Gathered {
  std::string id, metric;
  std::vector<std::vector<std::vector<double>>> sessions;
};

std::vector<Gathered> gather(const std::vector<CalibrationSession>& sessions) {
  std::vector<Gathered> found;
  std::map<std::pair<std::string, std::string>, std::size_t> known;
  for (const CalibrationSession& session : sessions)
    for (const CellRuns& cell : session.cells) {
      const auto [place, is_new] = known.try_emplace({cell.id, cell.metric}, found.size());
      if (is_new) found.push_back({cell.id, cell.metric, {}});
      found[place->second].sessions.push_back(cell.runs);
    }
  // One run does not show how runs differ.
  std::erase_if(found, [](const Gathered& one) {
    return one.sessions.size() == 1 && one.sessions.front().size() == 1;
  });
  return found;
}

CellNoise cell_noise(Gathered gathered, double threshold, double confidence) {
  CellNoise cell;
  cell.id = std::move(gathered.id);
  cell.metric = std::move(gathered.metric);
  cell.sessions = static_cast<int>(gathered.sessions.size());
  std::vector<std::vector<double>> all;
  for (auto& runs : gathered.sessions)
    for (std::vector<double>& run : runs) {
      all.push_back(run);
      for (double& value : run) value = std::log(value);
    }
  cell.runs = static_cast<int>(all.size());
  const auto smallest = std::min_element(
      all.begin(), all.end(), [](const auto& one, const auto& other) { return one.size() < other.size(); });
  cell.forks = static_cast<int>(smallest->size());
  const Scatter scatter = scatter_of(gathered.sessions);
  cell.within_runs = scatter.within;
  cell.between_runs = scatter.between;
  cell.degrees = scatter.degrees;
  compare_runs(cell, all, threshold, confidence);
  for (int forks = std::max(2, min_forks_for(confidence)); forks <= 64; forks *= 2)
    cell.visible[forks] =
        visible_change(cell.within_runs, spread_between(cell), forks, threshold, confidence);
  cell.forks_wanted =
      forks_to_see(cell.within_runs, spread_between(cell), threshold, confidence, min_forks_for(confidence));
  return cell;
}

}  // namespace

std::int64_t Calibration::comparisons() const {
  std::int64_t sum = 0;
  for (const CellNoise& cell : cells) sum += cell.comparisons;
  return sum;
}

std::int64_t Calibration::alarms() const {
  std::int64_t sum = 0;
  for (const CellNoise& cell : cells) sum += cell.alarms;
  return sum;
}

std::map<std::string, RunSpreads, std::less<>> Calibration::between_runs() const {
  struct Together {
    double squares = 0;
    int cells = 0, degrees = 0;
  };
  std::map<std::string, Together> together;
  for (const CellNoise& cell : cells) {
    Together& of_metric = together[cell.metric];
    of_metric.squares += cell.between_runs * cell.between_runs;
    of_metric.degrees = of_metric.cells++ == 0 ? cell.degrees : std::min(of_metric.degrees, cell.degrees);
  }
  std::map<std::string, RunSpreads, std::less<>> found;
  for (const auto& [metric, all] : together)
    found[metric][""] = {std::sqrt(all.squares / all.cells), all.degrees};
  // With few runs the estimate of a single cell is rough, and often 0 by chance.
  for (const CellNoise& cell : cells) {
    RunSpreads& spreads = found[cell.metric];
    spreads[cell.id] = {std::max(cell.between_runs, spreads[""].deviation), cell.degrees};
  }
  return found;
}

std::optional<int> Calibration::rounds_for(const std::vector<std::string>& ids, double at_threshold,
                                           double sure, const std::string& asked) const {
  std::vector<double> known, all;
  std::set<std::string_view> seen;
  for (const CellNoise& cell : cells) {
    if (asked.empty() ? !seen.insert(cell.id).second : cell.metric != asked) continue;
    all.push_back(cell.within_runs);
    if (contains(ids, cell.id)) known.push_back(cell.within_runs);
  }
  if (all.empty()) return std::nullopt;
  const double spread = known.empty() ? median(all) : *std::max_element(known.begin(), known.end());
  return forks_to_see(spread, {}, at_threshold, sure, min_rounds_for(sure));
}

Calibration calibration_of(std::vector<CalibrationSession> sessions, std::string fingerprint,
                           std::string machine, const CalibrationSettings& settings) {
  Calibration calibration;
  calibration.fingerprint = std::move(fingerprint);
  calibration.machine = std::move(machine);
  calibration.threshold = settings.threshold;
  calibration.confidence = settings.confidence;
  std::vector<Gathered> found = gather(sessions);
  if (found.empty())
    throw ConfigError("[calibrate] no cell is ok with two or more forks in at least two of the reports");
  calibration.made = sessions.back().made;
  calibration.sessions = std::move(sessions);
  // `compare` judges each cell by one metric.
  std::set<std::string_view> ids;
  for (const Gathered& one : found) ids.insert(one.id);
  const double confidence = 1 - (1 - settings.confidence) / static_cast<double>(ids.size());
  for (Gathered& one : found)
    calibration.cells.push_back(cell_noise(std::move(one), settings.threshold, confidence));
  suggest(calibration, confidence);
  return calibration;
}

std::filesystem::path calibration_place(std::string_view fingerprint) {
  return cache_folder() / "calibrations" / fmt::format("{}.json", fingerprint);
}

}  // namespace assay
