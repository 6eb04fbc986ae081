// The verdict about one cell of two reports: whether it is broken, which numbers are compared, and the
// result.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/conductor/compare/time_decision.hpp"
#include "harness/conductor/compare/verdict.hpp"
#include "harness/report/core_placement.hpp"
#include "harness/report/report.hpp"

namespace assay {

inline constexpr double usual_accuracy_error = 0.01;  // of all accuracies of a comparison together, one-sided

// A cell is broken if its speed cannot excuse the change: a worse status, a wrong result, a lower accuracy,
// or more memory.
struct BreakageSettings {
  double memory_threshold = 0.10;    // growth of planned arena, host and device peak
  double accuracy_threshold = 0.01;  // smallest fall of an accuracy (0..1) that counts, if it is certain
  double accuracy_error = usual_accuracy_error;  // one-sided, of one accuracy
};

struct Breakage {
  bool certain = true;  // false: chance may explain it
  std::string words{};  // one sentence
};

// An accuracy fell if it fell by more than accuracy_threshold, and by more than chance explains at accuracy_error: its
// change over the seeds that both sides used, by Student's t. What is assumed of a seed's change before any is known,
// worth four degrees of freedom: the binomial variance of the evaluated samples of both sides, and one point of each
// training. So 80 points over 10,000 images are certain with one seed, and 2 points are not. Without a shared seed: the
// difference of the means. Memory is compared by medians, because it does not vary.
std::optional<Breakage> breakage(const CellReport& base, const CellReport& current,
                                 const BreakageSettings& settings);
// The number of accuracies that breakage() compares; they share the probability of error.
int accuracies_of(const CellReport& base, const CellReport& current);

// What breakage() cannot compare as it should.
// "only the baseline has test_accuracy"; empty if both sides have the same compared metrics.
std::string metric_of_one_side(const CellReport& base, const CellReport& current);
// An accuracy for which the sides share no seed; empty if there is none.
std::string accuracy_of_other_seeds(const CellReport& base, const CellReport& current);

// The gate compares one number per fork.

// The metric of each fork that counts, see counted_forks(), and that was not moved. Empty if one of them does not have it.
std::vector<double> fork_values(const CellReport& cell, std::string_view metric, const UsualPlacement& usual);

// The default metric of a cell: "epoch_time" for two or more epochs, "training_time" for one epoch,
// "latency_p50" for a network in task infer, "token_time_p50" in task decode, else "step_time".
std::string main_metric(const Axes& axes);

// The verdict about two rows of one cell.

// Calls `decide` to compare the times if both rows are ok. A broken cell is broken at any speed. A cell that
// was not ok in the baseline is new if it is ok now, and unmeasured otherwise.
CellVerdict decide_pair(const CellReport& base, const CellReport& current, const std::string& metric,
                        const BreakageSettings& breakage, const std::function<CellVerdict()>& decide);

}  // namespace assay
