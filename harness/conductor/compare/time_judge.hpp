// Faster, slower, same or not known: the statistics of one cell, from one number a fork.
#pragma once

#include <optional>
#include <span>

#include "harness/conductor/compare/verdict.hpp"

namespace assay {

// The defaults of every gate.
inline constexpr double usual_threshold = 0.05;
inline constexpr double usual_confidence =
    0.95;  // of all intervals together; six forks a side attain it for 23 cells
inline constexpr double max_threshold = 10;
// Of all intervals together. Nearer to 1, the share of one cell among many has no digits left.
inline constexpr double max_confidence = 0.999999;

// What runs of one build differ by, from `assay calibrate`.
struct RunSpread {
  double deviation = 0;  // standard deviation of ln(time); 0: not known
  int degrees = 0;       // of freedom of that estimate; 0: it is exact
};

struct JudgeSettings {
  double threshold = usual_threshold;    // of the ratio: what is smaller than 1 + threshold is no regression
  double confidence = usual_confidence;  // of this cell's interval
  RunSpread between_runs{};
  bool higher_is_better = false;  // of the metric
};

// `base`, `current`: one positive value a fork, of forks that are independent of each other. Fills verdict,
// reason, ratio, bounds, confidence and forks_needed.
//
//   slower        the interval lies above 1 and the estimate at or above 1 + threshold
//   faster        the interval lies below 1 and the estimate at or below 1 / (1 + threshold)
//   same          the interval lies within [1 / (1 + threshold), 1 + threshold]
//   inconclusive  all else; also where so few forks attain the confidence with no interval at all
//
// A known spread between runs widens the interval: half widths add in squares, that of the runs by Student's t, since few
// runs know it badly.
CellVerdict judge_times(std::span<const double> base, std::span<const double> current,
                        const JudgeSettings& settings);

// The same where base[i] and current[i] were measured side by side, in one round: what disturbs a round
// disturbs both, and the spread between runs is in neither.
CellVerdict judge_rounds(std::span<const double> base, std::span<const double> current,
                         const JudgeSettings& settings);

// The smallest number of forks a side, and of rounds, with which an interval of that confidence exists.
int least_forks(double confidence);
int least_rounds(double confidence);

// How many forks a side show a change of `distance` in ln(time) four times of five, where forks scatter by `spread` and
// runs by `between_runs`; nothing where no number up to 1000 does.
std::optional<int> forks_for(double spread, const RunSpread& between_runs, double distance,
                             double confidence);

// Half of the width of the interval of what two runs differ by, in ln(time).
double run_half_width(const RunSpread& between_runs, double confidence);

}  // namespace assay
