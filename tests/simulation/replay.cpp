#include "tests/simulation/replay.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>

#include "harness/conductor/compare/trial.hpp"
#include "harness/report/analysis.hpp"
#include "harness/report/fork_time.hpp"

namespace assay::simulation {
namespace {

// The rounds of a session from the place `from` on, as a separate report.
Report report_of(const Session& session, std::size_t from, std::size_t rounds) {
  Report report;
  report.run = nlohmann::json::object();
  report.environment = nlohmann::json::object();
  for (const CellReport& recorded : session.cells) {
    CellReport& cell = report.cells.emplace_back(recorded);
    const auto first = recorded.forks.begin() + static_cast<std::ptrdiff_t>(from);
    cell.forks.assign(first, first + static_cast<std::ptrdiff_t>(rounds));
  }
  mark_disturbances(report.cells);
  for (CellReport& cell : report.cells) cell.flags = quality_flags(cell.forks);
  return report;
}

// For the pair of compared cells that lost most rounds, see Rounds.
int spare_rounds(const Report& report, int most) {
  int spare = 0;
  for (const CellReport& a : report.cells)
    for (const CellReport& b : report.cells) {
      if (group_title(a.axes) != group_title(b.axes)) continue;
      const SharedRounds shared = shared_rounds(a, b);
      spare = std::max(spare,
                       std::min(shared.ok - shared.counting, shared.counting == 0 ? (most + 2) / 3 : most));
    }
  return spare;
}

std::vector<Report> runs_of(const Session& session, std::size_t from, std::size_t to, const Design& design) {
  std::vector<Report> runs;
  for (;;) {
    auto rounds = static_cast<std::size_t>(design.forks);
    for (;;) {
      if (from + rounds > to) return runs;
      Report run = report_of(session, from, rounds);
      const auto wanted = static_cast<std::size_t>(design.forks + spare_rounds(run, design.spare_rounds));
      if (rounds < wanted) {
        rounds = wanted;
        continue;
      }
      runs.push_back(std::move(run));
      from += rounds;
      break;
    }
  }
}

std::size_t rounds_in(const Session& session) { return session.cells.front().forks.size(); }

double time_of(const Fork& fork) { return fork_time(fork).value().step_seconds; }

void slow_down(Fork& fork, double effect) {
  for (Block& block : fork.blocks) {
    const auto length = static_cast<double>(block.end_ns - block.begin_ns);
    block.end_ns = block.begin_ns + std::llround(length * (1 + effect));
  }
}

// P(Binomial(n, p) <= k).
double binomial(int k, int n, double p) {
  double term = std::pow(1 - p, n), sum = 0;
  for (int i = 0; i <= k; ++i) {
    sum += term;
    term *= (n - i) / (i + 1.0) * p / (1 - p);
  }
  return sum;
}

}  // namespace

std::vector<Split> splits(const Recording& recording, const Design& design) {
  Split split;
  if (recording.sessions.size() == 1) {
    const Session& only = recording.sessions.front();
    const std::size_t middle = rounds_in(only) / 2;
    split.calibrating = {runs_of(only, 0, middle, design)};
    split.judged = {runs_of(only, middle, rounds_in(only), design)};
  } else {
    const std::size_t half = recording.sessions.size() / 2;
    for (std::size_t i = 0; i < recording.sessions.size(); ++i) {
      const Session& session = recording.sessions[i];
      (i < half ? split.calibrating : split.judged)
          .push_back(runs_of(session, 0, rounds_in(session), design));
    }
  }
  return {split, {split.judged, split.calibrating}};
}

std::vector<TwoRuns> pairs(const Runs& runs) {
  std::vector<const Report*> all;
  for (const auto& session : runs)
    for (const Report& run : session) all.push_back(&run);
  std::vector<TwoRuns> found;
  for (std::size_t i = 0; i < all.size(); ++i)
    for (std::size_t j = i + 1; j < all.size(); ++j) found.push_back({*all[i], *all[j]});
  return found;
}

Report slowed(const Report& run, double effect) {
  Report made = run;
  for (CellReport& cell : made.cells)
    for (Fork& fork : cell.forks) slow_down(fork, effect);
  return made;
}

std::optional<Calibration> calibration_by(const Runs& runs, const Design& design) {
  CalibrationSettings settings;
  settings.threshold = design.threshold;
  settings.confidence = design.confidence;
  std::optional<Calibration> made;
  for (const std::vector<Report>& session : runs) {
    const std::span<const Report> first(session.data(),
                                        std::min(session.size(), static_cast<std::size_t>(design.runs)));
    if (made && !first.empty())
      made = appended(*made, first, settings);
    else if (first.size() > 1)
      made = calibrate(first, settings);
  }
  return made;
}

Comparison compared(const Report& base, const Report& current, const Design& design,
                    const std::optional<Calibration>& calibration) {
  CompareSettings settings;
  settings.threshold = design.threshold;
  settings.confidence = design.confidence;
  if (calibration) settings.between_runs = calibration->between_runs();
  return compare(base, current, settings);
}

SequentialResult by_ab(const Session& session, const Design& design, double effect, Philox& lot) {
  const LookPlan plan = plan_looks(design.confidence, static_cast<int>(session.cells.size()));
  JudgeSettings settings;
  settings.threshold = design.threshold;
  settings.confidence = plan.confidence;
  const std::size_t all = rounds_in(session), wanted = 2 * static_cast<std::size_t>(plan.rounds.back());
  const std::size_t first = all > wanted ? lot.below(all - wanted + 1) : 0;
  SequentialResult result;
  for (const CellReport& cell : session.cells) {
    Trial trial(plan, settings);
    for (std::size_t at = first; at + 1 < all && !trial.decided(); at += 2) {
      double a = time_of(cell.forks[at]), b = time_of(cell.forks[at + 1]);
      if (lot.below(2) == 0) std::swap(a, b);
      trial.add(a, b * (1 + effect));
    }
    result.cells.push_back(trial.verdict());
    result.rounds.push_back(trial.rounds());
  }
  return result;
}

double upper_share(int events, int of, double confidence) {
  if (events >= of) return 1;
  double low = 0, high = 1;
  for (int i = 0; i < 60; ++i) {
    const double middle = 0.5 * (low + high);
    (binomial(events, of, middle) > 1 - confidence ? low : high) = middle;
  }
  return high;
}

}  // namespace assay::simulation
