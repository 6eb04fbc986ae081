// The verdict about one cell of two reports: whether it is broken, which numbers are compared, and the
// result.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/conductor/compare/time_judge.hpp"
#include "harness/conductor/compare/verdict.hpp"
#include "harness/report/report.hpp"

namespace assay {

// A cell is broken if its speed cannot excuse the change: a worse status, a wrong result, a lower accuracy,
// or more memory.
struct BreakageSettings {
  double memory_threshold = 0.10;        // growth of planned arena, host and device peak
  double accuracy_threshold = 0.01;      // smallest fall of an accuracy (0..1) that counts, if it is certain
  double confidence = usual_confidence;  // of the interval of one accuracy
};

struct Breakage {
  bool certain = true;  // false: too few seeds to be certain
  std::string words{};  // one sentence
};

// An accuracy fell if the interval of its change over forks of equal seed is below 0 and the estimate is
// below -accuracy_threshold; not certain if there are too few seeds for an interval of that confidence.
// Memory is compared by medians, because it does not vary.
std::optional<Breakage> breakage(const CellReport& base, const CellReport& current,
                                 const BreakageSettings& settings);
// The number of accuracies that breakage() judges; they share the probability of error.
int accuracies_of(const CellReport& base, const CellReport& current);

// The gate compares one number per fork.

// The metric of each fork that counts, see counted_forks(). Empty if one of them does not have it.
std::vector<double> fork_values(const CellReport& cell, std::string_view metric);

// The default metric of a cell: "epoch_time" for two or more epochs, "training_time" for one epoch,
// "latency_p50" for a network in task infer, "token_time_p50" in task decode, else "step_time".
std::string main_metric(const Axes& axes);

// The verdict about two rows of one cell.

// Calls `judge` to compare the times if both rows are ok. A broken cell is broken at any speed. A cell that
// was not ok in the baseline is new if it is ok now, and unmeasured otherwise.
CellVerdict judge_pair(const CellReport& base, const CellReport& current, const std::string& metric,
                       const BreakageSettings& breakage, const std::function<CellVerdict()>& judge);

}  // namespace assay
