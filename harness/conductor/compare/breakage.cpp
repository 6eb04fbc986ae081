#include "harness/conductor/compare/cell_judge.hpp"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "harness/conductor/print/table.hpp"
#include "harness/core/statistics.hpp"

namespace assay {
namespace {

std::string with_reason(const CellReport& cell) {
  return cell.reason.empty() ? std::string(to_string(cell.status))
                             : fmt::format("{} ({})", to_string(cell.status), one_line(cell.reason, 200));
}

bool fell(const std::vector<double>& base, const std::vector<double>& current,
          const BreakageSettings& settings) {
  const Shift shift = unpaired_shift(base, current, settings.confidence);
  if (shift.estimate >= -settings.accuracy_threshold) return false;
  if (shift.interval) return shift.interval->upper < 0;
  return *std::max_element(current.begin(), current.end()) < *std::min_element(base.begin(), base.end());
}

std::optional<std::string> accuracy_fell(const CellReport& base, const CellReport& current,
                                         const BreakageSettings& settings) {
  for (const char* metric : {"test_accuracy", "validation_accuracy"}) {
    const auto before = fork_values(base, metric), after = fork_values(current, metric);
    if (before.empty() || after.empty() || !fell(before, after, settings)) continue;
    return fmt::format("{} fell from {:.2f} % to {:.2f} %", metric, 100 * median(before),
                       100 * median(after));
  }
  return std::nullopt;
}

std::optional<std::string> memory_grew(const CellReport& base, const CellReport& current,
                                       const BreakageSettings& settings) {
  for (const char* metric : {"planned_arena", "device_peak_memory", "host_peak_rss"}) {
    const auto before = base.metrics.find(metric), after = current.metrics.find(metric);
    if (before == base.metrics.end() || after == current.metrics.end()) continue;
    const auto &was = before->second.value, &is = after->second.value;
    if (!was || !is || *was <= 0 || *is <= *was * (1 + settings.memory_threshold)) continue;
    return fmt::format("{} grew from {} to {}", metric, format_value(*was, Hint::bytes, "B"),
                       format_value(*is, Hint::bytes, "B"));
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> breakage(const CellReport& base, const CellReport& current,
                                    const BreakageSettings& settings) {
  if (base.status != Status::ok) return std::nullopt;
  if (current.status != Status::ok) return fmt::format("it was ok and is {}", with_reason(current));
  if (base.equivalence.checked && base.equivalence.passed && !current.equivalence.passed)
    return current.equivalence.checked
               ? fmt::format("it agreed with the oracle and is {:.3g} times past its bound",
                             current.equivalence.worst)
               : fmt::format("it was checked against the oracle and is not: {}",
                             one_line(current.equivalence.reason, 200));
  if (auto what = accuracy_fell(base, current, settings)) return what;
  return memory_grew(base, current, settings);
}

}  // namespace assay
