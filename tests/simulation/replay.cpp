#include "tests/simulation/replay.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <utility>

#include "harness/conductor/compare/looks.hpp"
#include "harness/report/analysis.hpp"
#include "harness/report/fork_time.hpp"

namespace assay::simulation {
namespace {

// The rounds of a session from the place `from` on, as a separate report.
Report report_of(const Session& session, std::size_t from, std::size_t rounds) {
  Report report;
  report.environment.cpu = {.model = "that of the recording", .allowed = 1};
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

std::size_t rounds_in(const Session& session) { return session.cells.front().forks.size(); }

// Adds the runs of a session.
void add_runs(std::vector<Report>& runs, const Session& session, const Design& design) {
  const std::size_t to = rounds_in(session);
  if (to < 2 * static_cast<std::size_t>(design.forks)) {
    runs.push_back(report_of(session, 0, to));
    return;
  }
  for (std::size_t from = 0;;) {
    auto rounds = static_cast<std::size_t>(design.forks);
    for (;;) {
      if (from + rounds > to) return;
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

double time_of(const Fork& fork) { return fork_time(fork).value().step_seconds; }

void slow_down(Fork& fork, double effect) {
  for (Block& block : fork.blocks) {
    const auto length = static_cast<double>(block.end_ns - block.begin_ns);
    block.end_ns = block.begin_ns + std::llround(length * (1 + effect));
  }
}

}  // namespace

std::vector<Report> runs_of(const Recording& recording, const Design& design) {
  std::vector<Report> runs;
  for (const Session& session : recording.sessions) add_runs(runs, session, design);
  return runs;
}

std::vector<Contest> contests(const std::vector<Report>& runs, int baselines) {
  std::vector<Contest> found;
  const auto count = static_cast<std::size_t>(baselines);
  for (std::size_t i = 0; i + count < runs.size(); ++i) {
    Contest& contest = found.emplace_back();
    for (std::size_t b = 0; b < count; ++b) contest.bases.push_back(&runs[i + b]);
    contest.current = &runs[i + count];
  }
  return found;
}

Report slowed(const Report& run, double effect, std::size_t cell) {
  Report made = run;
  for (std::size_t c = 0; c < made.cells.size(); ++c)
    if (cell >= made.cells.size() || c == cell)
      for (Fork& fork : made.cells[c].forks) slow_down(fork, effect);
  return made;
}

Comparison compared(const Contest& contest, const Design& design, const std::vector<std::size_t>& cells) {
  CompareSettings settings;
  settings.threshold = design.threshold;
  settings.confidence = design.confidence;
  settings.overlooked = {Overlooked::unchecked};
  for (const std::size_t cell : cells)
    settings.filter += (settings.filter.empty() ? "" : ",") + contest.current->cells[cell].id;
  return compare(contest.bases, *contest.current, settings);
}

bool shows(const Contest& contest, const std::vector<std::size_t>& cells, std::size_t place, double effect) {
  const Report changed = slowed(*contest.current, effect, cells.empty() ? place : cells[place]);
  const std::string& id = changed.cells[cells.empty() ? place : cells[place]].id;
  for (const CellVerdict& cell : compared({contest.bases, &changed}, {}, cells).cells)
    if (cell.id == id) return cell.verdict == Verdict::slower;
  return false;
}

double fork_spread(const std::vector<const Report*>& runs, std::size_t cell) {
  double squares = 0;
  std::size_t degrees = 0;
  for (const Report* run : runs) {
    std::vector<double> times;
    for (const Fork& fork : run->cells[cell].forks)
      if (counts(fork)) times.push_back(std::log(time_of(fork)));
    if (times.empty()) continue;
    const double mean = std::accumulate(times.begin(), times.end(), 0.0) / static_cast<double>(times.size());
    for (const double time : times) squares += std::pow(time - mean, 2);
    degrees += times.size() - 1;
  }
  return degrees == 0 ? std::numeric_limits<double>::infinity()
                      : std::sqrt(squares / static_cast<double>(degrees));
}

std::vector<std::size_t> steady_cells(const std::vector<const Report*>& runs) {
  std::vector<std::size_t> found;
  for (std::size_t cell = 0; cell < runs.front()->cells.size(); ++cell)
    if (fork_spread(runs, cell) <= steady_spread) found.push_back(cell);
  return found;
}

std::vector<const Report*> choosing_runs(const std::vector<Report>& runs, const Contest& contest,
                                         ChosenBy by) {
  std::vector<const Report*> found;
  for (const Report& run : runs) {
    const bool used =
        &run == contest.current || std::ranges::find(contest.bases, &run) != contest.bases.end();
    if (by == ChosenBy::all_runs || !used) found.push_back(&run);
  }
  return found;
}

std::vector<Report> recombined(const std::vector<Report>& runs, int baselines, std::size_t cells, ChosenBy by,
                               Philox& lot) {
  constexpr int tries = 1000;
  const auto used = static_cast<std::size_t>(baselines) + 1;
  if (runs.size() <= used) return {};
  std::vector<Report> made(used, runs.front());
  for (Report& run : made) run.cells.clear();
  std::vector<const Report*> order;
  for (const Report& run : runs) order.push_back(&run);
  const auto choosing = static_cast<std::ptrdiff_t>(by == ChosenBy::all_runs ? 0 : used);
  for (std::size_t cell = 0; cell < cells; ++cell) {
    std::size_t recorded = 0;
    for (int left = tries;; --left) {
      if (left == 0) return {};
      recorded = lot.below(runs.front().cells.size());
      lot.shuffle(std::span(order));
      if (fork_spread({order.begin() + choosing, order.end()}, recorded) <= steady_spread) break;
    }
    for (std::size_t run = 0; run < used; ++run) {
      CellReport& copy = made[run].cells.emplace_back(order[run]->cells[recorded]);
      copy.axes.backend += std::to_string(cell);
      copy.id = cell_id(copy.axes);
    }
  }
  return made;
}

SequentialResult by_ab(const Session& session, const Design& design, double effect, Philox& lot) {
  const LookPlan plan = plan_looks(design.confidence, static_cast<int>(session.cells.size()));
  DecisionSettings settings;
  settings.threshold = design.threshold;
  settings.confidence = plan.confidence;
  const std::size_t all = rounds_in(session), wanted = 2 * static_cast<std::size_t>(plan.rounds.back());
  const std::size_t first = all > wanted ? lot.below(all - wanted + 1) : 0;
  SequentialResult result;
  for (const CellReport& cell : session.cells) {
    Looks looks(plan, settings);
    for (std::size_t at = first; at + 1 < all && !looks.decided(); at += 2) {
      double a = time_of(cell.forks[at]), b = time_of(cell.forks[at + 1]);
      if (lot.below(2) == 0) std::swap(a, b);
      looks.add(a, b * (1 + effect));
    }
    result.cells.push_back(looks.verdict());
    result.rounds.push_back(looks.rounds());
  }
  return result;
}

}  // namespace assay::simulation
