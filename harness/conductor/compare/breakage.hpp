// What is broken in a cell that a speed cannot excuse: a status that got worse, an answer that is no longer
// right, an accuracy that fell, memory that grew.
#pragma once

#include <optional>
#include <string>

#include "harness/report/report.hpp"

namespace assay {

struct BreakageSettings {
  double memory_threshold = 0.10;    // growth of planned arena, host and device peak
  double accuracy_threshold = 0.01;  // fall of an accuracy (0..1) that counts once its interval shows it
  double confidence = 0.95;
};

// A sentence, or nothing. An accuracy fell when the interval of its change over forks lies below 0 and the
// estimate below -accuracy_threshold; with too few forks for an interval, when every fork lies below all of
// the baseline's and the medians differ by more than the threshold. Memory is compared by medians: it does
// not scatter.
std::optional<std::string> breakage(const CellReport& base, const CellReport& current,
                                    const BreakageSettings& settings);

}  // namespace assay
