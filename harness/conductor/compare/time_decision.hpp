// Faster, slower, same or inconclusive: the statistics of a pair of cells that were measured in one run, from one number
// per round.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harness/conductor/compare/verdict.hpp"

namespace assay {

// The defaults of every gate.
inline constexpr double usual_threshold = 0.05;
inline constexpr double usual_confidence = 0.95;  // that all intervals hold at once
inline constexpr double max_threshold = 10;
// For all intervals at once. Closer to 1, the share of one cell among many has no digits left.
inline constexpr double max_confidence = 0.999999;

struct DecisionSettings {
  double threshold = usual_threshold;    // a ratio below 1 + threshold is not a regression
  double confidence = usual_confidence;  // of this cell's interval
  bool higher_is_better = false;         // of the metric
};

// How values are compared: by logarithms, so that a ratio is a difference. If a value is not above 0, as page faults, shares
// and differences of times may be: by the values themselves, as parts of the larger median of the two sides. A change is
// positive if it is for the worse.
class Scale {
 public:
  Scale(std::span<const double> base, std::span<const double> current, bool higher_is_better);

  std::vector<double> operator()(std::span<const double> values) const;
  bool is_ratio() const { return unit_ == 0; }
  // Sets ratio and bounds, or the words for a difference, from a change and its interval on this scale.
  void describe(CellVerdict& cell, double estimate, double lower, double upper) const;

 private:
  double unit_ = 0;  // 0: logarithms
  double sign_ = 1;
};

// `base`, `current`: one value per round; base[i] and current[i] were measured in one round. A disturbance affects
// both, and the spread between runs affects neither. Fills verdict, reason, ratio, bounds, confidence and forks_needed.
//
//   slower        the interval is above 1, and the estimate is at least 1 + threshold
//   faster        the interval is below 1, and the estimate is at most 1 / (1 + threshold)
//   same          the interval is within [1 / (1 + threshold), 1 + threshold]
//   inconclusive  otherwise; also if there are too few rounds for any interval of that confidence
CellVerdict decide_rounds(std::span<const double> base, std::span<const double> current,
                          const DecisionSettings& settings);

// The minimum number of rounds for which an interval of that confidence exists.
int min_rounds_for(double confidence);

// The rounds that detect a change of `distance` in ln(time) with a power of 80 %, if the differences of rounds scatter by
// `spread`; nullopt if 1000 are not enough.
std::optional<int> rounds_for(double spread, double distance, double confidence);

}  // namespace assay
