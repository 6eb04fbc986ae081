#include <algorithm>
#include <cmath>
#include <limits>

#include "harness/core/statistics.hpp"
#include "harness/report/analysis.hpp"

namespace assay {
namespace {

constexpr double never = std::numeric_limits<double>::infinity();

bool is_after_an_epoch(const Evaluation& evaluation, DataSplit split) {
  return evaluation.split == split && evaluation.epoch > 0;
}

bool has(const AnalyzedCell& cell, DataSplit split) {
  return std::ranges::any_of(cell.forks, [split](const AnalyzedFork& fork) {
    return fork.counted && std::ranges::any_of(fork.fork->evaluations, [split](const Evaluation& evaluation) {
             return is_after_an_epoch(evaluation, split);
           });
  });
}

std::optional<int> first_epoch_with(const Fork& fork, DataSplit split, double target) {
  std::optional<int> first;
  for (const Evaluation& evaluation : fork.evaluations)
    if (is_after_an_epoch(evaluation, split) && evaluation.accuracy >= target &&
        (!first || evaluation.epoch < *first))
      first = evaluation.epoch;
  return first;
}

std::optional<double> if_finite(double value) {
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

}  // namespace

std::optional<TimeToAccuracy> time_to_accuracy(const AnalyzedCell& cell, double target) {
  TimeToAccuracy out{.target = target};
  if (!has(cell, DataSplit::validation)) {
    if (!has(cell, DataSplit::test)) return std::nullopt;
    out.split = DataSplit::test;
  }
  std::vector<double> seconds, epochs;
  for (const AnalyzedFork& fork : cell.forks) {
    if (!fork.counted) continue;
    const std::optional<int> epoch = first_epoch_with(*fork.fork, out.split, target);
    ++out.forks;
    seconds.push_back(epoch ? fork.seconds_until(*epoch) : never);
    if (!epoch) continue;
    ++out.reached;
    epochs.push_back(*epoch);
  }
  out.value = if_finite(median(seconds));
  if (const auto interval = median_interval(seconds)) {
    out.lower = if_finite(interval->lower);
    out.upper = if_finite(interval->upper);
    out.confidence = interval->confidence;
  }
  if (!epochs.empty()) {
    std::ranges::sort(epochs);
    out.epochs = static_cast<int>(epochs[(epochs.size() - 1) / 2]);
  }
  return out;
}

}  // namespace assay
