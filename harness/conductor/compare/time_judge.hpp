// Faster, slower, same or inconclusive: the statistics of one cell, from one number per fork.
#pragma once

#include <optional>
#include <span>

#include "harness/conductor/compare/verdict.hpp"

namespace assay {

// The defaults of every gate.
inline constexpr double usual_threshold = 0.05;
inline constexpr double usual_confidence =
    0.95;  // that all intervals hold at once; six forks per side reach it for 23 cells
inline constexpr double max_threshold = 10;
// For all intervals at once. Closer to 1, the share of one cell among many has no digits left.
inline constexpr double max_confidence = 0.999999;

// The difference between runs of one build, from `assay calibrate`.
struct RunSpread {
  double deviation = 0;  // standard deviation of ln(time); 0: not known
  int degrees = 0;       // degrees of freedom of that estimate; 0: it is exact
};

struct JudgeSettings {
  double threshold = usual_threshold;    // a ratio below 1 + threshold is not a regression
  double confidence = usual_confidence;  // of this cell's interval
  RunSpread between_runs{};
  bool higher_is_better = false;  // of the metric
};

// `base`, `current`: one positive value per fork; the forks must be independent of each other. Fills verdict,
// reason, ratio, bounds, confidence and forks_needed.
//
//   slower        the interval is above 1, and the estimate is at least 1 + threshold
//   faster        the interval is below 1, and the estimate is at most 1 / (1 + threshold)
//   same          the interval is within [1 / (1 + threshold), 1 + threshold]
//   inconclusive  otherwise; also if there are too few forks for any interval of that confidence
//
// A known spread between runs widens the interval: half widths add in squares. That of the runs uses
// Student's t, because it is estimated from few runs.
CellVerdict judge_times(std::span<const double> base, std::span<const double> current,
                        const JudgeSettings& settings);

// The same for pairs: base[i] and current[i] were measured in one round. A disturbance affects both, and the
// spread between runs affects neither.
CellVerdict judge_rounds(std::span<const double> base, std::span<const double> current,
                         const JudgeSettings& settings);

// The minimum number of forks per side, and of rounds, for which an interval of that confidence exists.
int min_forks_for(double confidence);
int min_rounds_for(double confidence);

// The forks per side that detect a change of `distance` in ln(time) with a power of 80 %, if forks scatter by
// `spread` and runs by `between_runs`; nullopt if 1000 forks are not enough.
std::optional<int> forks_for(double spread, const RunSpread& between_runs, double distance,
                             double confidence);

// Half of the width of the interval of the difference between two runs, in ln(time).
double run_half_width(const RunSpread& between_runs, double confidence);

}  // namespace assay
