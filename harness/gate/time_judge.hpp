// Faster, slower, same or not known: the statistics of one cell, from one number a fork.
#pragma once

#include <span>

#include "harness/gate/verdict.hpp"

namespace assay {

struct JudgeSettings {
  double threshold = 0.05;   // of the ratio: what is smaller than 1 + threshold is no regression
  double confidence = 0.95;  // of this cell's interval
  // Standard deviation of ln(time) between runs of one build on this machine, from `assay calibrate`; 0: not
  // known.
  double between_runs = 0;
  bool higher_is_better = false;  // of the metric
};

// `base`, `current`: one positive value a fork, of forks that are independent of each other. Fills verdict,
// reason, ratio, bounds, confidence and forks_needed.
//
//   slower        the interval lies above 1 and the estimate at or above 1 + threshold
//   faster        the interval lies below 1 and the estimate at or below 1 / (1 + threshold)
//   same          the interval lies within [1 / (1 + threshold), 1 + threshold]
//   inconclusive  all else; also where so few forks attain the confidence with no interval at all
CellVerdict judge_times(std::span<const double> base, std::span<const double> current,
                        const JudgeSettings& settings);

// The smallest number of forks a side with which an interval of that confidence exists.
int least_forks(double confidence);

}  // namespace assay
