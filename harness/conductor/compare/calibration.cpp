#include "harness/conductor/compare/calibration.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numbers>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "harness/conductor/compare/time_decision.hpp"
#include "harness/conductor/config/options.hpp"
#include "harness/conductor/store/machine_store.hpp"
#include "harness/core/statistics.hpp"
#include "harness/core/text.hpp"

namespace assay {
namespace {

constexpr std::array thresholds{0.01, 0.02, 0.03, 0.05, 0.07, 0.10, 0.15, 0.20, 0.30, 0.50};
constexpr int usual_forks = 12;
constexpr double share_of_cells = 0.9;

// The change that 80 % of trials of `assay ab` with so many rounds report at that threshold: the estimate must reach the
// threshold, and its interval must exclude 1. A difference within a round has the variance of two forks.
double visible_in_rounds(double within, int rounds, double threshold, double confidence) {
  const double error = std::sqrt(2 * std::numbers::pi / 3 * within * within / rounds);
  const double half = normal_quantile(0.5 + 0.5 * confidence) * error;
  return std::expm1(std::max(std::log1p(threshold), half) + normal_quantile(detection_power) * error);
}

double twice(double threshold) { return 2 * threshold; }

double visible_change(const Spread& spread, int forks, double threshold, double confidence) {
  return std::expm1(spread.detectable(usual_runs, forks, std::log1p(threshold), confidence));
}

void suggest(Calibration& calibration, const std::vector<Spread>& spreads, double confidence) {
  const auto enough = [&](std::size_t count) {
    return static_cast<double>(count) >= share_of_cells * static_cast<double>(calibration.cells.size());
  };
  std::vector<int> wanted;
  for (const CellNoise& cell : calibration.cells)
    if (cell.forks_wanted) wanted.push_back(*cell.forks_wanted);
  std::sort(wanted.begin(), wanted.end());
  for (std::size_t i = 0; i < wanted.size() && !calibration.forks; ++i)
    if (enough(i + 1)) calibration.forks = wanted[i];
  for (const double threshold : thresholds) {
    const auto seen = std::count_if(spreads.begin(), spreads.end(), [&](const Spread& spread) {
      return visible_change(spread, usual_forks, threshold, confidence) <= twice(threshold);
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

CellNoise cell_noise(const Gathered& gathered, const Spread& spread, double threshold, double confidence) {
  CellNoise cell;
  cell.id = gathered.id;
  cell.metric = gathered.metric;
  cell.sessions = static_cast<int>(gathered.sessions.size());
  std::size_t forks = gathered.sessions.front().front().size();
  for (const auto& runs : gathered.sessions)
    for (const std::vector<double>& run : runs) {
      ++cell.runs;
      forks = std::min(forks, run.size());
    }
  cell.forks = static_cast<int>(forks);
  cell.within_runs = std::sqrt(spread.of_forks);
  cell.between_runs = std::sqrt(spread.of_runs);
  for (int count = 2; count <= 64; count *= 2)
    cell.visible[count] = visible_change(spread, count, threshold, confidence);
  // More forks also leave fewer degrees of freedom, so one after another is tried.
  for (int count = 2; count <= 1000 && !cell.forks_wanted; count += std::max(1, count / 16))
    if (visible_change(spread, count, threshold, confidence) <= twice(threshold)) cell.forks_wanted = count;
  return cell;
}

CellSessions logarithms_of(const Gathered& gathered) {
  CellSessions found;
  found.sessions = gathered.sessions;
  for (auto& runs : found.sessions)
    for (RunValues& run : runs)
      for (double& value : run) value = std::log(value);
  return found;
}

std::vector<MetricHistory> histories_of(const std::vector<Gathered>& gathered) {
  std::vector<MetricHistory> found;
  for (const Gathered& one : gathered) {
    auto history = std::ranges::find(found, one.metric, &MetricHistory::metric);
    if (history == found.end()) history = found.insert(found.end(), {one.metric, {}});
    history->cells.push_back(logarithms_of(one));
  }
  return found;
}

}  // namespace

std::vector<MetricHistory> Calibration::histories() const { return histories_of(gather(sessions)); }

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
  int low = min_rounds_for(sure), high = 1000;
  const auto finds = [&](int rounds) {
    return visible_in_rounds(spread, rounds, at_threshold, sure) <= twice(at_threshold);
  };
  if (!finds(high)) return std::nullopt;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (finds(middle))
      high = middle;
    else
      low = middle + 1;
  }
  return high;
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
  // `compare` decides each cell by one metric.
  std::set<std::string_view> ids;
  for (const Gathered& one : found) ids.insert(one.id);
  const double confidence = 1 - (1 - settings.confidence) / static_cast<double>(ids.size());
  std::map<std::string, std::vector<std::optional<Spread>>, std::less<>> spreads;
  for (const MetricHistory& history : histories_of(found))
    spreads[history.metric] = spreads_of(
        history.cells, {.prior_deviation = prior_run_deviation, .prior_degrees = prior_run_degrees});
  std::map<std::string, std::size_t, std::less<>> next;
  std::vector<Spread> all;
  for (const Gathered& one : found) {
    // Every run has two forks or more.
    all.push_back(spreads.at(one.metric)[next[one.metric]++].value());
    calibration.cells.push_back(cell_noise(one, all.back(), settings.threshold, confidence));
  }
  suggest(calibration, all, confidence);
  return calibration;
}

std::filesystem::path calibration_place(std::string_view fingerprint) {
  return MachineStore::in_cache("calibrations").place(fingerprint);
}

}  // namespace assay
