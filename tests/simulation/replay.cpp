#include "tests/simulation/replay.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "harness/conductor/compare/calibration.hpp"
#include "harness/conductor/compare/time_judge.hpp"
#include "harness/conductor/compare/trial.hpp"
#include "tests/simulation/u_test.hpp"

namespace assay::simulation {
namespace {

constexpr int calibration_runs = 5;

double cell_confidence(const Design& design) { return 1 - (1 - design.confidence) / design.cells; }

}  // namespace

std::size_t turn(const Series& series, const Design& design) {
  return std::max<std::size_t>(1, series.forks.size() / (2 * static_cast<std::size_t>(design.forks)));
}

Forks run_of(const Series& series, const Design& design, std::size_t from, int cell) {
  const std::size_t step = turn(series, design);
  Forks made;
  // The cells of a run begin one after another within the first turn.
  from += static_cast<std::size_t>(cell) * step / static_cast<std::size_t>(design.cells);
  for (int i = 0; i < design.forks; ++i, from += step) {
    const std::size_t at = from % series.forks.size();
    made.values.push_back(series.values[at]);
    made.blocks.insert(made.blocks.end(), series.forks[at].begin(), series.forks[at].end());
  }
  return made;
}

Places two_places(const Series& series, const Design& design, Philox& lot) {
  const std::size_t all = series.forks.size(),
                    length = turn(series, design) * static_cast<std::size_t>(design.forks);
  Places places;
  places.base = lot.below(all);
  // Anywhere but within the first run.
  places.current = places.base + length + lot.below(all > 2 * length ? all - 2 * length + 1 : 1);
  if (lot.below(2) == 0) std::swap(places.base, places.current);
  return places;
}

TwoRuns two_runs(const Series& series, const Design& design, const Places& places, int cell, double effect) {
  TwoRuns runs{run_of(series, design, places.base, cell), run_of(series, design, places.current, cell)};
  for (double& value : runs.current.values) value *= 1 + effect;
  for (double& value : runs.current.blocks) value *= 1 + effect;
  return runs;
}

CellVerdict by_compare(const TwoRuns& runs, const Design& design, const RunSpread& between_runs) {
  JudgeSettings settings;
  settings.threshold = design.threshold;
  settings.confidence = cell_confidence(design);
  settings.between_runs = between_runs;
  return judge_times(runs.base.values, runs.current.values, settings);
}

bool flagged_by_u_test(const TwoRuns& runs) {
  return mann_whitney_p(runs.base.blocks, runs.current.blocks) < 0.05;
}

std::vector<RunSpread> calibrated(const Series& series, const Design& design, Philox& lot) {
  std::vector<std::size_t> places;
  for (int run = 0; run < calibration_runs; ++run) places.push_back(lot.below(series.forks.size()));
  Calibration calibration;
  for (int cell = 0; cell < design.cells; ++cell) {
    std::vector<std::vector<double>> runs;
    for (const std::size_t place : places) runs.push_back(run_of(series, design, place, cell).values);
    calibration.cells.push_back(scatter_of(std::to_string(cell), "step_time", runs));
  }
  std::vector<RunSpread> found;
  const auto between = calibration.between_runs().at("step_time");
  for (const CellNoise& cell : calibration.cells) found.push_back(between.at(cell.id));
  return found;
}

SequentialResult by_ab(const Series& series, const Design& design, double effect, Philox& lot) {
  JudgeSettings settings;
  settings.threshold = design.threshold;
  const LookPlan plan = plan_looks(design.confidence, design.cells);
  settings.confidence = plan.confidence;
  Trial trial(plan, settings);
  const std::size_t from = lot.below(series.values.size());
  const std::size_t step = std::max<std::size_t>(2, turn(series, design));
  for (std::size_t at = 0; !trial.decided(); at += step) {
    double a = series.values[(from + at) % series.values.size()];
    double b = series.values[(from + at + 1) % series.values.size()];
    if (lot.below(2) == 0) std::swap(a, b);
    trial.add(a, b * (1 + effect));
  }
  return {trial.verdict(), trial.rounds()};
}

}  // namespace assay::simulation
