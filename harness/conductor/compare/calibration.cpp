#include "harness/conductor/compare/calibration.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include <fmt/format.h>

#include "harness/conductor/compare/cell_judge.hpp"
#include "harness/conductor/compare/time_judge.hpp"
#include "harness/conductor/config/options.hpp"
#include "harness/core/paths.hpp"
#include "harness/core/statistics.hpp"
#include "harness/core/text.hpp"
#include "harness/report/environment_difference.hpp"

namespace assay {
namespace {

constexpr std::array thresholds{0.01, 0.02, 0.03, 0.05, 0.07, 0.10, 0.15, 0.20, 0.30, 0.50};
constexpr int usual_forks = 12;
constexpr double power = 0.8;
constexpr double share_of_cells = 0.9;

using Logs = std::vector<double>;

double mean(const Logs& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

double sum_of_squares(const Logs& values) {
  const double middle = mean(values);
  double sum = 0;
  for (const double value : values) sum += (value - middle) * (value - middle);
  return sum;
}

// One-way analysis of variance: forks within runs.
struct Variances {
  double within = 0, between = 0;
};
Variances variances(const std::vector<Logs>& runs) {
  double within = 0, count = 0, squares = 0;
  Logs means;
  for (const Logs& run : runs) {
    const auto n = static_cast<double>(run.size());
    within += sum_of_squares(run);
    count += n;
    squares += n * n;
    means.push_back(mean(run));
  }
  const auto k = static_cast<double>(runs.size());
  Variances found;
  found.within = count > k ? within / (count - k) : 0;
  double between = 0, grand = 0;
  for (std::size_t i = 0; i < runs.size(); ++i) grand += static_cast<double>(runs[i].size()) * means[i];
  grand /= count;
  for (std::size_t i = 0; i < runs.size(); ++i)
    between += static_cast<double>(runs[i].size()) * (means[i] - grand) * (means[i] - grand);
  // Forks a run, where the runs differ in it.
  const double each = (count - squares / count) / (k - 1);
  found.between = std::max(0.0, (between / (k - 1) - found.within) / each);
  return found;
}

// The change that 80 % of comparisons with so many forks a side call, at that threshold: the estimate must reach the
// threshold, and its interval must leave 1.
double visible_change(double within, const RunSpread& between, int forks, double threshold,
                      double confidence) {
  const double of_forks = std::numbers::pi / 3 * within * within / forks;
  const double error = std::sqrt(2 * (of_forks + between.deviation * between.deviation));
  const double half = std::hypot(normal_quantile(0.5 + 0.5 * confidence) * std::sqrt(2 * of_forks),
                                 run_half_width(between, confidence));
  return std::expm1(std::max(std::log1p(threshold), half) + normal_quantile(power) * error);
}

double twice(double threshold) { return 2 * threshold; }

// The fewest forks a side that show twice the threshold. The change that is seen falls with the forks.
std::optional<int> forks_to_see(double within, const RunSpread& between, double threshold, double confidence,
                                int least) {
  const auto seen = [&](int forks) {
    return visible_change(within, between, forks, threshold, confidence) <= twice(threshold);
  };
  int low = least, high = 1000;
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

RunSpread spread_between(const CellNoise& cell) { return {cell.between_runs, cell.runs - 1}; }

// Between every two runs, as if they were a baseline and a new report.
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
  // Of few comparisons no quartile says much.
  const double q1 = quantile(changes, 0.25), q3 = quantile(changes, 0.75);
  const double most = *std::max_element(changes.begin(), changes.end());
  cell.floor = std::expm1(changes.size() >= 10 ? q3 + 3 * (q3 - q1) : 2 * most);
}

const CellReport* find(const Report& report, const std::string& id) {
  const auto found = std::find_if(report.cells.begin(), report.cells.end(),
                                  [&](const CellReport& cell) { return cell.id == id; });
  return found == report.cells.end() ? nullptr : &*found;
}

// The forks of each run that has the cell with two or more.
std::vector<std::vector<double>> forks_of(std::span<const Report> runs, const std::string& id,
                                          const std::string& metric) {
  std::vector<std::vector<double>> found;
  for (const Report& run : runs) {
    const CellReport* cell = find(run, id);
    if (!cell || cell->status != Status::ok) continue;
    auto values = fork_values(*cell, metric);
    const bool positive = std::all_of(values.begin(), values.end(), [](double value) { return value > 0; });
    if (values.size() >= 2 && positive) found.push_back(std::move(values));
  }
  return found;
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
  const int forks = std::max(usual_forks, least_forks(confidence));
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

void require_one_machine(std::span<const Report> runs) {
  for (const Report& run : runs)
    for (const EnvironmentDifference& one : environment_differences(runs.front(), run))
      if (one.hard)
        throw ConfigError(
            fmt::format("[calibrate] {} differs between the reports: {} and {}: they are to be of one build "
                        "on one machine",
                        one.what, one.base, one.current));
}

}  // namespace

CellNoise scatter_of(std::string id, std::string metric, const std::vector<std::vector<double>>& runs) {
  CellNoise cell;
  cell.id = std::move(id);
  cell.metric = std::move(metric);
  cell.runs = static_cast<int>(runs.size());
  cell.forks = static_cast<int>(runs.front().size());
  std::vector<Logs> logs;
  for (const auto& run : runs) {
    cell.forks = std::min(cell.forks, static_cast<int>(run.size()));
    Logs log;
    for (const double value : run) log.push_back(std::log(value));
    logs.push_back(std::move(log));
  }
  const Variances found = variances(logs);
  cell.within_runs = std::sqrt(found.within);
  cell.between_runs = std::sqrt(found.between);
  return cell;
}

CellNoise cell_noise(std::string id, std::string metric, const std::vector<std::vector<double>>& runs,
                     double threshold, double confidence) {
  CellNoise cell = scatter_of(std::move(id), std::move(metric), runs);
  compare_runs(cell, runs, threshold, confidence);
  for (int forks = std::max(2, least_forks(confidence)); forks <= 64; forks *= 2)
    cell.visible[forks] =
        visible_change(cell.within_runs, spread_between(cell), forks, threshold, confidence);
  cell.forks_wanted =
      forks_to_see(cell.within_runs, spread_between(cell), threshold, confidence, least_forks(confidence));
  return cell;
}

int Calibration::comparisons() const {
  int sum = 0;
  for (const CellNoise& cell : cells) sum += cell.comparisons;
  return sum;
}

int Calibration::alarms() const {
  int sum = 0;
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
    of_metric.degrees = of_metric.cells++ == 0 ? cell.runs - 1 : std::min(of_metric.degrees, cell.runs - 1);
  }
  std::map<std::string, RunSpreads, std::less<>> found;
  for (const auto& [metric, all] : together)
    found[metric][""] = {std::sqrt(all.squares / all.cells), all.degrees};
  // Of a few runs a cell's own estimate is rough, and often 0 by chance.
  for (const CellNoise& cell : cells) {
    RunSpreads& spreads = found[cell.metric];
    spreads[cell.id] = {std::max(cell.between_runs, spreads[""].deviation), cell.runs - 1};
  }
  return found;
}

std::optional<int> Calibration::rounds_for(const std::vector<std::string>& ids, double at_threshold,
                                           double sure) const {
  std::vector<double> known, all;
  for (const CellNoise& cell : cells) {
    all.push_back(cell.within_runs);
    if (contains(ids, cell.id)) known.push_back(cell.within_runs);
  }
  if (all.empty()) return std::nullopt;
  const double spread = known.empty() ? median(all) : *std::max_element(known.begin(), known.end());
  return forks_to_see(spread, {}, at_threshold, sure, least_rounds(sure));
}

Calibration calibrate(std::span<const Report> runs, const CalibrationSettings& settings) {
  if (runs.size() < 2)
    throw ConfigError("[calibrate] one run says nothing of what runs differ by: two or more");
  require_one_machine(runs);
  Calibration calibration;
  calibration.fingerprint = machine_fingerprint(runs.front().environment).value_or("");
  calibration.machine = machine_text(runs.front().environment);
  calibration.made = utc_now();
  if (const auto kernel = field_at(runs.front().environment, "/kernel"); kernel.is_string())
    calibration.kernel = kernel.get<std::string>();
  calibration.threshold = settings.threshold;
  calibration.confidence = settings.confidence;
  calibration.runs = static_cast<int>(runs.size());
  struct Found {
    std::string id, metric;
    std::vector<std::vector<double>> runs;
  };
  std::vector<Found> found;
  for (const CellReport& cell : runs.front().cells) {
    const std::string metric = settings.metric.empty() ? main_metric(cell.axes) : settings.metric;
    auto forks = forks_of(runs, cell.id, metric);
    if (forks.size() >= 2) found.push_back({cell.id, metric, std::move(forks)});
  }
  if (found.empty())
    throw ConfigError("[calibrate] no cell is ok with two forks or more in two of the reports");
  const double confidence = 1 - (1 - settings.confidence) / static_cast<double>(found.size());
  for (const Found& one : found)
    calibration.cells.push_back(cell_noise(one.id, one.metric, one.runs, settings.threshold, confidence));
  suggest(calibration, confidence);
  return calibration;
}

std::string out_of_date(const Calibration& calibration, const nlohmann::json& environment,
                        std::string_view now) {
  const auto made = unix_seconds(calibration.made), today = unix_seconds(now);
  if (!made || !today) return fmt::format("it does not say when it was made ('{}')", calibration.made);
  const double days = static_cast<double>(*today - *made) / 86'400;
  if (days > calibration_days)
    return fmt::format("it is {:.0f} days old, and machines change: {} at most", days, calibration_days);
  const nlohmann::json kernel = field_at(environment, "/kernel");
  if (!calibration.kernel.empty() && kernel.is_string() && kernel.get<std::string>() != calibration.kernel)
    return fmt::format("it was made under kernel {}, and the new report under {}", calibration.kernel,
                       kernel.get<std::string>());
  return {};
}

std::filesystem::path calibration_place(std::string_view fingerprint) {
  return cache_folder() / "calibrations" / fmt::format("{}.json", fingerprint);
}

}  // namespace assay
