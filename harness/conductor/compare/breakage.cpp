#include "harness/conductor/compare/cell_judge.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "harness/conductor/compare/time_judge.hpp"
#include "harness/conductor/print/table.hpp"
#include "harness/core/statistics.hpp"
#include "harness/report/fork_time.hpp"
#include "harness/report/metrics.hpp"

namespace assay {
namespace {

constexpr std::array judged_accuracies{"test_accuracy", "validation_accuracy"};

std::string with_reason(const CellReport& cell) {
  return cell.reason.empty() ? std::string(to_string(cell.status))
                             : fmt::format("{} ({})", to_string(cell.status), one_line(cell.reason, 200));
}

// The values of forks that are ok, by seed and by the number among the forks of that seed.
using BySeed = std::map<std::pair<std::uint64_t, int>, double>;
BySeed by_seed(const CellReport& cell, const char* metric) {
  BySeed found;
  std::map<std::uint64_t, int> seen;
  for (const Fork* fork : ok_forks(cell))
    if (const auto value = fork_metric(cell, *fork, metric)) found[{fork->seed, seen[fork->seed]++}] = *value;
  return found;
}

// Pairs forks of the same seed: they begin with the same parameters and use the same batches.
std::vector<double> changes_of(const CellReport& base, const CellReport& current, const char* metric) {
  const auto before = by_seed(base, metric), after = by_seed(current, metric);
  std::vector<double> changes;
  for (const auto& [seed, value] : before)
    if (const auto found = after.find(seed); found != after.end()) changes.push_back(found->second - value);
  return changes;
}

std::optional<Breakage> accuracy_fell(const CellReport& base, const CellReport& current,
                                      const BreakageSettings& settings) {
  for (const char* metric : judged_accuracies) {
    const std::vector<double> changes = changes_of(base, current, metric);
    if (changes.empty()) continue;
    const Shift shift = paired_shift(changes, settings.confidence);
    if (shift.estimate >= -settings.accuracy_threshold) continue;
    const std::string fall = fmt::format("{} fell by {:.2f} points over {} shared seeds", metric,
                                         -100 * shift.estimate, changes.size());
    if (!shift.interval)
      return Breakage{false, fmt::format("{}; at least {} seeds are needed to be sure", fall,
                                         min_rounds_for(settings.confidence))};
    if (shift.interval->upper < 0) return Breakage{true, fall};
  }
  return std::nullopt;
}

std::optional<Breakage> memory_grew(const CellReport& base, const CellReport& current,
                                    const BreakageSettings& settings) {
  for (const char* metric : {"planned_arena", "device_peak_memory", "host_peak_rss"}) {
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
  return static_cast<int>(std::count_if(judged_accuracies.begin(), judged_accuracies.end(), [&](auto metric) {
    return !changes_of(base, current, metric).empty();
  }));
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
