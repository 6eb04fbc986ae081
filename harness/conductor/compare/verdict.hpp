// What a comparison says of one cell.
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
  same,          // the whole interval lies within the threshold
  inconclusive,  // neither: `reason` says what would decide
  missing,       // in the baseline alone
  added,         // "new": in the other report alone
  broken,        // it worked, or was right, or fitted into memory, and is no longer so
  unmeasured,    // ok on neither side: there is nothing to compare
};
template <>
inline constexpr auto words<Verdict> =
    std::array{Word{Verdict::faster, "faster"},   Word{Verdict::slower, "slower"},
               Word{Verdict::same, "same"},       Word{Verdict::inconclusive, "inconclusive"},
               Word{Verdict::missing, "missing"}, Word{Verdict::added, "new"},
               Word{Verdict::broken, "broken"},   Word{Verdict::unmeasured, "unmeasured"}};

// In the order in which they ask for attention.
inline constexpr std::array verdicts{Verdict::broken,       Verdict::slower,     Verdict::missing,
                                     Verdict::inconclusive, Verdict::unmeasured, Verdict::faster,
                                     Verdict::added,        Verdict::same};

struct CellVerdict {
  std::string id;
  Verdict verdict = Verdict::inconclusive;
  std::string reason;  // a sentence; empty where the numbers say it all
  // Of what is unmeasured: a side went wrong, rather than being unsupported or unavailable.
  bool failed = false;
  // The metric that was judged; a ratio above 1 is slower, whichever way the metric counts.
  std::string metric;
  std::string unit;
  Hint hint = Hint::number;
  std::optional<double> base, current;  // medians over forks
  int base_forks = 0, current_forks = 0;
  std::optional<double> ratio;  // Hodges-Lehmann, of the forks
  std::optional<double> lower, upper, confidence;
  std::optional<int> forks_needed;  // a side, where more would decide
  std::optional<int> looks;         // of a sequential comparison: how often its rounds were judged
};

}  // namespace assay
