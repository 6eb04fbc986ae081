// Recorded forks replayed as the runs that a gate compares, by the program's own compare(), calibrate() and Trial.
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

// As the program does it where nothing else is asked.
struct Design {
  int forks = settings_of({}).forks;                // a side
  int spare_rounds = settings_of({}).spare_rounds;  // that replace disturbed ones
  int runs = usual_runs;                            // of a session of `assay calibrate`
  double threshold = usual_threshold;
  double confidence = usual_confidence;  // of all cells together
};

// Of each session its runs, in the order of time: `forks` rounds of all cells that follow one another, and more where
// some were disturbed. No two runs share a round.
using Runs = std::vector<std::vector<Report>>;

// A recording in two parts that share no round: whole sessions, or the halves of its only one. What is left over at the
// end of a part, and is no whole run, is in neither.
struct Split {
  Runs calibrating, judged;
};
// Both ways round: each part calibrates once, and is judged once.
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

// What `assay calibrate`, once for each session with --append, finds in the first runs of the sessions; nothing where
// there are too few.
std::optional<Calibration> calibration_by(const Runs& runs, const Design& design);

// `assay compare` of two runs. Each cell that was recorded is judged once.
Comparison compared(const Report& base, const Report& current, const Design& design,
                    const std::optional<Calibration>& calibration = {});

// compare.py of a cell, over the pooled blocks of all its forks: p < 0.05.
bool flagged_by_u_test(const CellReport& base, const CellReport& current);

// `assay ab` of all cells of a session: a round takes two forks of each cell that follow each other, and by lot the first
// or the second is B's, which is `effect` slower. It begins at a round drawn by lot that leaves room for all looks, if
// there is one, and ends early where the session does, as by --max-time.
struct SequentialResult {
  std::vector<CellVerdict> cells;
  std::vector<int> rounds;  // of each
};
SequentialResult by_ab(const Session& session, const Design& design, double effect, Philox& lot);

// Clopper & Pearson (1934): the share of recordings of which `events` in `of` are as few as one can expect with that
// confidence; one-sided.
double upper_share(int events, int of, double confidence);

}  // namespace assay::simulation
