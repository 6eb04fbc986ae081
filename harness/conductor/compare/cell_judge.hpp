// The verdict about one cell of two reports: what is broken in it, which numbers are compared, and the result.
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

// What is broken in a cell that a speed cannot excuse: a status that got worse, an answer that is no longer
// right, an accuracy that fell, memory that grew.
struct BreakageSettings {
  double memory_threshold = 0.10;        // growth of planned arena, host and device peak
  double accuracy_threshold = 0.01;      // fall of an accuracy (0..1) that counts once its interval shows it
  double confidence = usual_confidence;  // of the interval of one accuracy
};

struct Breakage {
  bool certain = true;  // false: so few seeds cannot tell
  std::string words{};  // a sentence
};

// An accuracy fell when the interval of its change over the forks of equal seed lies below 0 and the estimate below
// -accuracy_threshold; not certain where so few seeds have no interval of that confidence. Memory is compared by
// medians: it does not scatter.
std::optional<Breakage> breakage(const CellReport& base, const CellReport& current,
                                 const BreakageSettings& settings);
// How many accuracies that judges: each takes its share of what may go wrong.
int accuracies_of(const CellReport& base, const CellReport& current);

// One number a fork: what the gate compares.

// The metric of each fork that counts, see counted_forks(). Empty where one of them has no such value.
std::vector<double> fork_values(const CellReport& cell, std::string_view metric);

// What a cell is judged by when nothing is asked for: "epoch_time" where epochs are counted and there are two
// or more, "training_time" where there is one, "latency_p50" of a network in task infer, else "step_time".
std::string main_metric(const Axes& axes);

// What two rows of one cell show before times are compared.

// `judge` is asked where both are ok. What is broken is so however fast; what was not ok in the baseline is
// new where it is ok now, and unmeasured where it is not.
CellVerdict judge_pair(const CellReport& base, const CellReport& current, const std::string& metric,
                       const BreakageSettings& breakage, const std::function<CellVerdict()>& judge);

}  // namespace assay
