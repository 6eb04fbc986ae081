// Recorded forks replayed as the runs that a gate compares, by the program's own compare(), calibrate() and
// Trial.
#pragma once

#include <optional>
#include <vector>

#include "harness/conductor/compare/calibration.hpp"
#include "harness/conductor/compare/compare.hpp"
#include "harness/conductor/compare/time_judge.hpp"
#include "harness/conductor/compare/verdict.hpp"
#include "harness/conductor/config/matrix.hpp"
#include "harness/core/io/philox.hpp"
#include "harness/report/report.hpp"
#include "tests/simulation/noise.hpp"

namespace assay::simulation {

// The program's defaults.
struct Design {
  int forks = settings_of({}).forks;                // a side
  int spare_rounds = settings_of({}).spare_rounds;  // that replace disturbed ones
  int runs = usual_runs;                            // of a session of `assay calibrate`
  double threshold = usual_threshold;
  double confidence = usual_confidence;  // of all cells together
};

// The runs of each session, in the order of time: `forks` consecutive rounds of all cells, and more if some
// were disturbed. No two runs share a round.
using Runs = std::vector<std::vector<Report>>;

// A recording in two parts that share no round: whole sessions, or the halves of its only one. Rounds at the
// end of a part that are not a whole run are in neither.
struct Split {
  Runs calibrating, judged;
};
// In both directions: each part calibrates once, and is judged once.
std::vector<Split> splits(const Recording& recording, const Design& design);

// Every two runs, the earlier one first. They point into `runs`.
struct TwoRuns {
  const Report& base;
  const Report& current;
};
std::vector<TwoRuns> pairs(const Runs& runs);
std::vector<TwoRuns> pairs(Runs&& runs) = delete;

// The run with all its times `effect` longer.
Report slowed(const Report& run, double effect);

// The result of `assay calibrate`, once per session with --append, for the first runs of the sessions;
// nullopt if there are too few.
std::optional<Calibration> calibration_by(const Runs& runs, const Design& design);

// `assay compare` of two runs. Each cell that was recorded is judged once.
Comparison compared(const Report& base, const Report& current, const Design& design,
                    const std::optional<Calibration>& calibration = {});

// `assay ab` of all cells of a session: a round takes two consecutive forks of each cell, and at random the
// first or the second is B's, which is `effect` slower. It begins at a random round that leaves room for all
// looks, if there is one, and ends early with the session, as with --max-time.
struct SequentialResult {
  std::vector<CellVerdict> cells;
  std::vector<int> rounds;  // of each
};
SequentialResult by_ab(const Session& session, const Design& design, double effect, Philox& lot);

// Clopper & Pearson (1934): the largest share of recordings that is consistent with `events` in `of` at that
// confidence; one-sided.
double upper_share(int events, int of, double confidence);

}  // namespace assay::simulation
