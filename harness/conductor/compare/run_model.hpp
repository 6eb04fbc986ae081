// The statistics of `assay compare`: runs of a baseline against a new run. Pure.
//
// ln(time) of a fork = its cell + its run (common to all cells) + its cell in that run + the fork. The unit is the run:
// forks of one run say how well that run is known, and only other runs say how runs of one build differ.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "harness/conductor/compare/verdict.hpp"

namespace assay {

// One value for each fork of a run: a natural logarithm, or see compare.cpp.
using RunValues = std::vector<double>;

// The runs of a cell by one build, in sessions. A session is what was measured together; a baseline is a session of one
// run. A run is empty if it does not have the cell; all cells of a history have the same sessions and runs.
struct CellSessions {
  std::vector<std::vector<RunValues>> sessions;
};
using History = std::vector<CellSessions>;  // by cell

struct ModelCell {
  std::vector<RunValues> base;  // by baseline; all cells have the same number of baselines
  RunValues current;
};

struct ModelSettings {
  double threshold = 0;        // smallest change that counts, in ln(time)
  double confidence = 0;       // that all intervals hold at once
  double prior_deviation = 0;  // between runs of a cell: what is assumed before any run is known, ...
  double prior_degrees = 0;    // ... and how many degrees of freedom that is worth
};

inline constexpr double detection_power = 0.8;
// From so many cells on, the shift that all of them share is separated from the change of each.
inline constexpr std::size_t cells_for_a_shift = 5;

// How well the mean of a number of runs is known.
class Spread {
 public:
  double of_runs = 0;       // variance between runs of a cell
  double run_degrees = 1;   // of that estimate
  double of_forks = 0;      // variance between forks of a run
  double fork_degrees = 1;  // of that estimate
  double half_width(int runs, int forks, double confidence) const;
  // The change that is found with `detection_power`, if every run has that number of forks.
  double detectable(int runs, int forks, double threshold, double confidence) const;
};

struct CellChange {
  double estimate = 0;    // the new run less the mean of the baselines, and less the common shift
  double of_fastest = 0;  // the same of the fastest fork of each run, in place of its location
  double with_shift = 0;  // the estimate with the common shift
  double lower = 0, upper = 0;
  double confidence = 0;         // of the interval
  double detectable = 0;         // the change that would have been found with `detection_power`
  int baselines = 0, forks = 0;  // baselines that have the cell; the smallest number of forks of a run
  double worst_pair = 0;         // the largest difference between two of its baselines
  Spread spread;
  bool uneven = false;  // its baselines differ by far more than those of the other cells: one of them changed
};

struct CommonShift {
  double estimate = 0, lower = 0, upper = 0;  // 95 %
};

struct ModelResult {
  // By cell; nullopt without two forks in some run, or without a value on both sides.
  std::vector<std::optional<CellChange>> cells;
  std::optional<CommonShift> shift;  // with cells_for_a_shift cells or more
  double confidence = 0;             // of each interval
  double between_runs = 0;           // standard deviation between runs of a cell
};

// The shift is the median over the cells, so a change of a few of them is not in it. Variances between runs are pooled over
// the cells, over the baselines and over `histories` of other builds, and combined with the prior; if those of the cells
// differ by more than chance explains, each cell has more of its own. Those of forks are pooled over the runs of a cell.
// Intervals are Student's, with degrees of freedom by Satterthwaite (1946), and share the
// error (Bonferroni).
ModelResult decide_runs(const std::vector<ModelCell>& cells, std::span<const History> histories,
                        const ModelSettings& settings);

// The interval excludes 0, and the estimate is at least the threshold.
bool shows_change(const CellChange& change, double threshold);
// No two baselines differ by as much. What machines do to runs has heavier tails than the normal distribution.
bool is_beyond_baselines(const CellChange& change);
// The fastest forks changed by at least half as much. Slower code is slower in every process, but a machine that changes in
// mid-run slows down some of the forks.
bool is_in_every_fork(const CellChange& change);

// Its own time, with the common shift, changed by at least half as much. If the machine slowed down half of the cells in
// mid-run, the others are not faster, though they are relative to the shift.
bool is_in_own_time(const CellChange& change);

// slower, faster, same or inconclusive, for a threshold and a change to detect in ln(time).
//
//   slower, faster  it shows a change that is beyond the baselines, in every fork and in its own time
//   same            it shows none, and a change of `detect` would have been found with `detection_power`
//   inconclusive    otherwise; also if the baselines are uneven
Verdict verdict_of(const CellChange& change, double threshold, double detect);

// The same estimates of variances from one history alone, by cell; nullopt for a cell without two forks in some run.
std::vector<std::optional<Spread>> spreads_of(const History& history, const ModelSettings& settings);

}  // namespace assay
