#include "harness/conductor/compare/cell_decision.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "harness/conductor/compare/time_decision.hpp"
#include "harness/conductor/print/table.hpp"
#include "harness/core/statistics.hpp"
#include "harness/core/text.hpp"
#include "harness/report/fork_time.hpp"
#include "harness/report/metrics.hpp"

namespace assay {
namespace {

constexpr std::array compared_accuracies{"test_accuracy", "validation_accuracy"};
constexpr std::array compared_memory{"planned_arena", "device_peak_memory", "host_peak_rss"};
constexpr int accuracy_prior_degrees = 4;

std::string with_reason(const CellReport& cell) {
  return cell.reason.empty() ? std::string(to_string(cell.status))
                             : fmt::format("{} ({})", to_string(cell.status), one_line(cell.reason, 200));
}

DataSplit split_of(std::string_view metric) {
  return metric == "test_accuracy" ? DataSplit::test : DataSplit::validation;
}

// The accuracies of the forks that are ok, as their mean for each seed: forks of one seed are not independent.
struct Accuracies {
  std::map<std::uint64_t, double> by_seed;
  double samples = 0;  // evaluated ones, of the fork with the fewest

  double mean() const {
    double sum = 0;
    for (const auto& [seed, value] : by_seed) sum += value;
    return sum / static_cast<double>(by_seed.size());
  }
};

Accuracies accuracies(const CellReport& cell, std::string_view metric) {
  Accuracies found;
  std::map<std::uint64_t, int> count;
  for (const Fork* fork : ok_forks(cell)) {
    const auto value = fork_metric(cell, *fork, metric);
    if (!value) continue;
    double& mean = found.by_seed[fork->seed];
    mean += (*value - mean) / ++count[fork->seed];
    for (const Evaluation& evaluation : fork->evaluations)
      if (evaluation.split == split_of(metric)) {
        const auto samples = static_cast<double>(evaluation.samples);
        found.samples = found.samples > 0 ? std::min(found.samples, samples) : samples;
      }
  }
  return found;
}

// Changes by seed: forks of one seed begin with the same parameters and use the same batches.
std::vector<double> changes_of(const Accuracies& before, const Accuracies& after) {
  std::vector<double> changes;
  for (const auto& [seed, value] : before.by_seed)
    if (const auto found = after.by_seed.find(seed); found != after.by_seed.end())
      changes.push_back(found->second - value);
  return changes;
}

// A variance from a few values, with what is assumed before any is known.
double variance_with_prior(std::span<const double> values, double prior) {
  constexpr double prior_degrees = accuracy_prior_degrees;
  double sum = 0, squares = 0;
  for (const double value : values) sum += value;
  const auto count = static_cast<double>(values.size());
  for (const double value : values) squares += (value - sum / count) * (value - sum / count);
  return (prior_degrees * prior + squares) / (prior_degrees + count - 1);
}

// The variance of the accuracy of one training: of the samples on which two programs disagree by chance, and of the
// training.
double assumed_variance(const Accuracies& one) {
  const double p = std::clamp(one.mean(), 0.0, 1.0);
  constexpr double of_training = 0.01;
  return p * (1 - p) / std::max(1.0, one.samples) + of_training * of_training;
}

std::vector<double> values_of(const Accuracies& one) {
  std::vector<double> values;
  for (const auto& [seed, value] : one.by_seed) values.push_back(value);
  return values;
}

struct Fall {
  double estimate = 0, error = 0;  // negative: it fell; standard deviation of the estimate
  int degrees = 1;
  std::string over;
};

Fall fall_of(const Accuracies& before, const Accuracies& after) {
  const std::vector<double> changes = changes_of(before, after);
  const double assumed = assumed_variance(before) + assumed_variance(after);
  Fall fall;
  if (!changes.empty()) {
    const auto count = static_cast<double>(changes.size());
    for (const double change : changes) fall.estimate += change / count;
    // The part of the training is the same on both sides.
    fall.error = std::sqrt(variance_with_prior(changes, assumed) / count);
    fall.degrees = accuracy_prior_degrees + static_cast<int>(changes.size()) - 1;
    fall.over = plural(changes.size(), "shared seed");
    return fall;
  }
  const std::vector<double> was = values_of(before), is = values_of(after);
  fall.estimate = after.mean() - before.mean();
  fall.error =
      std::sqrt(variance_with_prior(was, assumed_variance(before)) / static_cast<double>(was.size()) +
                variance_with_prior(is, assumed_variance(after)) / static_cast<double>(is.size()));
  fall.degrees = accuracy_prior_degrees + static_cast<int>(std::min(was.size(), is.size())) - 1;
  fall.over = fmt::format("{} and {}", was.size(), plural(is.size(), "other seed"));
  return fall;
}

std::optional<Breakage> accuracy_fell(const CellReport& base, const CellReport& current,
                                      const BreakageSettings& settings) {
  std::optional<Breakage> uncertain;
  for (const char* metric : compared_accuracies) {
    const Accuracies before = accuracies(base, metric), after = accuracies(current, metric);
    if (before.by_seed.empty() || after.by_seed.empty()) continue;
    const Fall fall = fall_of(before, after);
    if (fall.estimate >= -settings.accuracy_threshold) continue;
    const double half = student_t_quantile(1 - settings.accuracy_error, fall.degrees) * fall.error;
    std::string words =
        fmt::format("{} fell by {:.2f} points over {}", metric, -100 * fall.estimate, fall.over);
    if (fall.estimate + half < 0) return Breakage{true, std::move(words)};
    if (!uncertain)
      uncertain = Breakage{
          false, fmt::format("{}, but chance explains up to {:.2f} points; use more --forks, each has "
                             "a seed",
                             words, 100 * half)};
  }
  return uncertain;
}

std::optional<Breakage> memory_grew(const CellReport& base, const CellReport& current,
                                    const BreakageSettings& settings) {
  for (const char* metric : compared_memory) {
    const auto before = base.metrics.find(metric), after = current.metrics.find(metric);
    if (before == base.metrics.end() || after == current.metrics.end()) continue;
    const auto &was = before->second.value, &is = after->second.value;
    if (!was || !is || *was <= 0 || *is <= *was * (1 + settings.memory_threshold)) continue;
    // Forks of one side differ, too, if an allocator or threads decide by chance.
    const auto &highest = before->second.upper, &lowest = after->second.lower;
    if (highest && lowest && *lowest <= *highest) continue;
    return Breakage{true, fmt::format("{} grew from {} to {}", metric, format_value(*was, Hint::bytes, "B"),
                                      format_value(*is, Hint::bytes, "B"))};
  }
  return std::nullopt;
}

}  // namespace

int accuracies_of(const CellReport& base, const CellReport& current) {
  return static_cast<int>(std::ranges::count_if(compared_accuracies, [&](const char* metric) {
    return !accuracies(base, metric).by_seed.empty() && !accuracies(current, metric).by_seed.empty();
  }));
}

std::string metric_of_one_side(const CellReport& base, const CellReport& current) {
  const auto text = [](const char* metric, bool in_base) {
    return fmt::format("only {} has {}", in_base ? "the baseline" : "the new report", metric);
  };
  for (const char* metric : compared_accuracies) {
    const bool was = !accuracies(base, metric).by_seed.empty(),
               is = !accuracies(current, metric).by_seed.empty();
    if (was != is) return text(metric, was);
  }
  const auto has = [](const CellReport& cell, const char* metric) {
    const auto found = cell.metrics.find(metric);
    return found != cell.metrics.end() && found->second.value.has_value();
  };
  for (const char* metric : compared_memory)
    if (has(base, metric) != has(current, metric)) return text(metric, has(base, metric));
  return {};
}

std::string accuracy_of_other_seeds(const CellReport& base, const CellReport& current) {
  for (const char* metric : compared_accuracies) {
    const Accuracies before = accuracies(base, metric), after = accuracies(current, metric);
    if (!before.by_seed.empty() && !after.by_seed.empty() && changes_of(before, after).empty()) return metric;
  }
  return {};
}

std::optional<Breakage> breakage(const CellReport& base, const CellReport& current,
                                 const BreakageSettings& settings) {
  if (base.status != Status::ok) return std::nullopt;
  if (current.status != Status::ok)
    return Breakage{true, fmt::format("the status was ok and is {}", with_reason(current))};
  if (base.equivalence.checked && base.equivalence.passed && !current.equivalence.passed)
    return Breakage{
        true,
        current.equivalence.checked
            ? fmt::format("the cell agreed with the oracle before; now its error is {:.3g} times the bound",
                          current.equivalence.worst)
            : fmt::format("the cell was checked against the oracle before and is not checked now: {}",
                          one_line(current.equivalence.reason, 200))};
  if (auto what = accuracy_fell(base, current, settings)) return what;
  return memory_grew(base, current, settings);
}

}  // namespace assay
