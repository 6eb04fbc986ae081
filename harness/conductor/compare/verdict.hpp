// The verdict of a comparison about one cell.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "harness/core/words.hpp"
#include "harness/report/metric.hpp"

namespace assay {

enum class Verdict {
  faster,
  slower,
  same,  // no change was found, and one of a known size would have been (ab: it is within the threshold)
  inconclusive,  // none of these: `reason` says what would decide it
  missing,       // only in the baseline
  added,         // "new": only in the new report
  broken,        // worked, was correct, or used less memory before
  unmeasured,    // not ok on either side: there is nothing to compare
};
template <>
inline constexpr auto words<Verdict> =
    std::array{Word{Verdict::faster, "faster"},   Word{Verdict::slower, "slower"},
               Word{Verdict::same, "same"},       Word{Verdict::inconclusive, "inconclusive"},
               Word{Verdict::missing, "missing"}, Word{Verdict::added, "new"},
               Word{Verdict::broken, "broken"},   Word{Verdict::unmeasured, "unmeasured"}};

// By urgency, the most urgent first.
inline constexpr std::array verdicts{Verdict::broken,       Verdict::slower,     Verdict::missing,
                                     Verdict::inconclusive, Verdict::unmeasured, Verdict::faster,
                                     Verdict::added,        Verdict::same};

struct CellVerdict {
  std::string id;
  Verdict verdict = Verdict::inconclusive;
  std::string reason;  // one sentence; empty if the numbers are enough
  // For `unmeasured`: a side failed, instead of being unsupported or unavailable.
  bool failed = false;
  // The compared metric; a ratio above 1 is slower, also for a metric where higher is better.
  std::string metric;
  std::string unit;
  Hint hint = Hint::number;
  std::optional<double> base, current;  // medians over forks
  int base_forks = 0, current_forks = 0;
  int baselines = 0;            // in a comparison with several runs: those that the cell is compared with
  std::optional<double> ratio;  // less the shift that all cells share, if that is known
  std::optional<double> lower, upper, confidence;
  std::optional<double> detectable;     // ratio - 1 that would have been found in four of five comparisons
  std::optional<int> forks_needed;      // per run, if more forks would decide
  std::optional<int> baselines_needed;  // the same of baselines
  std::optional<int> looks;             // in a sequential comparison: the number of looks
};

}  // namespace assay
