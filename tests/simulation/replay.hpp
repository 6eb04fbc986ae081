// Recorded forks replayed as the runs that a gate compares, by the program's own compare() and Looks.
#pragma once

#include <cstddef>
#include <vector>

#include "harness/conductor/compare/calibration.hpp"
#include "harness/conductor/compare/compare.hpp"
#include "harness/conductor/compare/time_decision.hpp"
#include "harness/conductor/compare/verdict.hpp"
#include "harness/conductor/config/run_settings.hpp"
#include "harness/core/io/philox.hpp"
#include "harness/report/report.hpp"
#include "tests/simulation/noise.hpp"

namespace assay::simulation {

// The program's defaults.
struct Design {
  int forks = settings_of({}).forks;                // of a run
  int spare_rounds = settings_of({}).spare_rounds;  // that replace disturbed ones
  int baselines = usual_runs;
  double threshold = usual_threshold;
  double confidence = usual_confidence;  // of all cells together
};

// The runs of a recording in the order of time: `forks` consecutive rounds of all cells, and more if some were disturbed.
// A session with fewer than twice as many rounds is one run. No two runs share a round.
std::vector<Report> runs_of(const Recording& recording, const Design& design);

// Consecutive runs: `baselines` of them, and the one after them.
struct Contest {
  std::vector<const Report*> bases;
  const Report* current = nullptr;
};
// They point into `runs`.
std::vector<Contest> contests(const std::vector<Report>& runs, int baselines);
std::vector<Contest> contests(std::vector<Report>&& runs, int baselines) = delete;

// The run with the times of one cell `effect` longer; of all cells if `cell` is not one of them.
Report slowed(const Report& run, double effect, std::size_t cell = std::size_t(-1));

// `assay compare` of the cells with these indices; empty: of all cells. Each cell that was recorded is decided once.
Comparison compared(const Contest& contest, const Design& design, const std::vector<std::size_t>& cells = {});

// Whether a change of one of these cells, by its place in `cells` (empty: all), is found as `slower`.
bool shows(const Contest& contest, const std::vector<std::size_t>& cells, std::size_t place, double effect);

// Standard deviation of ln(time) between forks that count, within runs. Infinite if no run has two of them.
double fork_spread(const std::vector<const Report*>& runs, std::size_t cell);
inline constexpr double steady_spread = 0.025;  // of a steady cell, at most
// By these runs.
std::vector<std::size_t> steady_cells(const std::vector<const Report*>& runs);

// The runs by which cells are chosen: those that a comparison does not use, so that it does not choose its own
// cells, or all of them.
enum class ChosenBy { other_runs, all_runs };
std::vector<const Report*> choosing_runs(const std::vector<Report>& runs, const Contest& contest,
                                         ChosenBy by);
// Runs of more cells than were recorded: each has the recorded runs of one cell in an order drawn at random. The cell
// and the order are drawn again until the cell is steady. Empty if there are too few runs, or if no cell is steady.
std::vector<Report> recombined(const std::vector<Report>& runs, int baselines, std::size_t cells, ChosenBy by,
                               Philox& lot);

// `assay ab` of all cells of a session: a round takes two consecutive forks of each cell, and at random the
// first or the second is B's, which is `effect` slower. It begins at a random round that leaves room for all
// looks, if there is one, and ends early with the session, as with --max-time.
struct SequentialResult {
  std::vector<CellVerdict> cells;
  std::vector<int> rounds;  // of each
};
SequentialResult by_ab(const Session& session, const Design& design, double effect, Philox& lot);

}  // namespace assay::simulation
