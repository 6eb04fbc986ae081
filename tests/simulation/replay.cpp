#include "tests/simulation/replay.hpp"

#include <algorithm>
#include <cmath>

#include "harness/gate/calibration.hpp"
#include "harness/gate/time_judge.hpp"
#include "harness/gate/trial.hpp"
#include "tests/simulation/u_test.hpp"

namespace assay::simulation {
namespace {

double cell_confidence(const Design& design) { return 1 - (1 - design.confidence) / design.cells; }

}  // namespace

Stretch stretch(const Series& series, std::size_t from, int forks) {
  Stretch made;
  for (int i = 0; i < forks; ++i) {
    const std::size_t at = (from + static_cast<std::size_t>(i)) % series.forks.size();
    made.values.push_back(series.values[at]);
    made.blocks.insert(made.blocks.end(), series.forks[at].begin(), series.forks[at].end());
  }
  return made;
}

TwoRuns two_runs(const Series& series, const Design& design, double effect, Philox& lot) {
  const std::size_t all = series.forks.size(), each = static_cast<std::size_t>(design.forks);
  const std::size_t first = lot.below(all);
  // Anywhere but in the forks of the first run.
  const std::size_t room = all > 2 * each ? all - 2 * each + 1 : 1;
  const std::size_t second = first + each + lot.below(room);
  TwoRuns runs{stretch(series, first, design.forks), stretch(series, second, design.forks)};
  if (lot.below(2) == 0) std::swap(runs.base, runs.current);
  for (double& value : runs.current.values) value *= 1 + effect;
  for (double& value : runs.current.blocks) value *= 1 + effect;
  return runs;
}

CellVerdict by_compare(const TwoRuns& runs, const Design& design, double between_runs) {
  JudgeSettings settings;
  settings.threshold = design.threshold;
  settings.confidence = cell_confidence(design);
  settings.between_runs = between_runs;
  return judge_times(runs.base.values, runs.current.values, settings);
}

bool flagged_by_u_test(const TwoRuns& runs) {
  return mann_whitney_p(runs.base.blocks, runs.current.blocks) < 0.05;
}

double calibrated(const Series& series, const Design& design, int runs, int forks, Philox& lot) {
  std::vector<std::vector<double>> made;
  for (int run = 0; run < runs; ++run)
    made.push_back(stretch(series, lot.below(series.forks.size()), forks).values);
  return cell_noise("", "step_time", made, design.threshold, cell_confidence(design)).between_runs;
}

SequentialResult by_ab(const Series& series, const Design& design, double effect, Philox& lot) {
  JudgeSettings settings;
  settings.threshold = design.threshold;
  const LookPlan plan = plan_looks(design.confidence, design.cells);
  settings.confidence = plan.confidence;
  Trial trial(plan, settings);
  const std::size_t from = lot.below(series.values.size());
  for (std::size_t at = 0; !trial.decided(); at += 2) {
    double a = series.values[(from + at) % series.values.size()];
    double b = series.values[(from + at + 1) % series.values.size()];
    if (lot.below(2) == 0) std::swap(a, b);
    trial.add(a, b * (1 + effect));
  }
  return {trial.verdict(), trial.rounds()};
}

}  // namespace assay::simulation
