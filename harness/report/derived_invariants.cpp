// What a report derives from its raw forks, derived again.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/core/text.hpp"
#include "harness/report/fork_time.hpp"
#include "harness/report/invariants.hpp"
#include "harness/report/metric_table.hpp"
#include "harness/report/metrics.hpp"

namespace assay {
namespace {

// Relative. Another compiler may round a sum otherwise; a text in a report has all digits of a number.
constexpr double derived_rounding = 1e-9;

bool is_same(const std::optional<double>& a, const std::optional<double>& b) {
  if (!a || !b) return a.has_value() == b.has_value();
  return *a == *b || std::abs(*a - *b) <= derived_rounding * std::max(std::abs(*a), std::abs(*b));
}

std::string text_of(const std::optional<double>& number) {
  return number ? fmt::format("{}", *number) : "null";
}

void validate_kind(Violations& violations, const std::string& name, const Metric& metric,
                   const Metric& described) {
  if (metric.unit != described.unit)
    violations.add(
        fmt::format("metric {}: the unit is {}, but should be {}", name, metric.unit, described.unit));
  if (metric.hint != described.hint)
    violations.add(fmt::format("metric {}: the hint is {}, but should be {}", name, to_string(metric.hint),
                               to_string(described.hint)));
}

void validate_numbers(Violations& violations, const std::string& name, const Metric& metric,
                      const Metric& derived, bool older) {
  // Earlier rules had a value where there is none today, and took the start from the forks that count.
  if (older && (!metric.value || !derived.value || name == "host_start_rss")) return;
  const auto compare = [&](const char* what, const std::optional<double>& stored,
                           const std::optional<double>& again) {
    if (older && !again) return;
    if (!is_same(stored, again))
      violations.add(fmt::format("metric {}: {} is {}, but the raw numbers of its forks give {}", name, what,
                                 text_of(stored), text_of(again)));
  };
  compare("value", metric.value, derived.value);
  compare("lower", metric.lower, derived.lower);
  compare("upper", metric.upper, derived.upper);
  compare("confidence", metric.confidence, derived.confidence);
  if (metric.n != derived.n)
    violations.add(fmt::format("metric {}: n is {}, but {} count{}", name, metric.n,
                               plural(derived.n, "fork"), derived.n == 1 ? "s" : ""));
}

// The plan is of the graph, which a report does not have: only its parts can contradict each other.
void validate_plan(Violations& violations, const CellReport& cell) {
  const auto value = [&](const char* name) {
    const auto found = cell.metrics.find(name);
    return found == cell.metrics.end() ? std::nullopt : found->second.value;
  };
  for (const auto& [name, metric] : cell.metrics)
    if (is_planned(name) && metric.value && metric.n != 1)
      violations.add(fmt::format("metric {}: n is {}, but a plan is made once", name, metric.n));
  const auto naive = value("plan_naive"), shared = value("plan_co_share"), saving = value("plan_saving");
  if (naive && shared && saving && !is_same(saving, *naive / *shared))
    violations.add(fmt::format("metric plan_saving: value is {}, but plan_naive / plan_co_share is {}",
                               *saving, *naive / *shared));
  const auto validate_order = [&](const char* less, const char* more) {
    const auto a = value(less), b = value(more);
    if (a && b && *a > *b) violations.add(fmt::format("metric {} is {}, above {}: {}", less, *a, more, *b));
  };
  validate_order("plan_lower_bound", "plan_co_share");
  validate_order("plan_in_place", "plan_naive");
  validate_order("plan_co_share_only", "plan_naive");
}

// A fork that did not end well decides the status of its cell; a cell may also fail without one.
void validate_status(Violations& violations, const CellReport& cell) {
  if (cell.status != Status::ok) return;
  for (const Fork& fork : cell.forks)
    if (fork.status != Status::ok)
      violations.add(
          fmt::format("is ok, but the fork of round {} is {}", fork.round, to_string(fork.status)));
}

// The first reports of today's rules do not have them.
constexpr std::array<std::string_view, 3> added_metrics{"peak_share", "energy_per_sample",
                                                        "device_step_time"};

void validate_metrics(Violations& violations, const CellReport& cell, bool older) {
  const Metrics derived = metrics_of(cell);
  for (const auto& [name, metric] : cell.metrics) {
    if (!find_metric(name)) continue;  // of another release
    validate_kind(violations, name, metric, described_metric(name));
    if (const auto again = derived.find(name); again != derived.end())
      validate_numbers(violations, name, metric, again->second, older);
  }
  if (older) return;  // without the metrics that are newer
  for (const auto& [name, metric] : derived)
    if (metric.value && !cell.metrics.contains(name) && !contains(added_metrics, name))
      violations.add(fmt::format("metric {} is missing: its forks give {}", name, text_of(metric.value)));
}

void validate_flags(Violations& violations, const CellReport& cell) {
  const std::vector<std::string> flags = quality_flags(cell.forks);
  if (cell.flags != flags)
    violations.add(fmt::format("its flags are [{}], but its forks give [{}]", fmt::join(cell.flags, ", "),
                               fmt::join(flags, ", ")));
}

// What mark_disturbances() reads of a fork.
Fork marks_of(const Fork& fork) {
  Fork out;
  out.round = fork.round;
  out.session = fork.session;
  out.order = fork.order;
  out.status = fork.status;
  out.flags = fork.flags;
  out.disturbance = fork.disturbance;
  out.placement = fork.placement;
  return out;
}

}  // namespace

void validate_by_rules_3(Violations& violations, CellReport& cell) {
  std::vector<std::vector<std::string>> stored;
  for (Fork& fork : cell.forks) {
    stored.push_back(fork.flags);
    const bool disturbed = contains(fork.flags, "disturbed_round"),
               stopped = contains(fork.flags, "cpu_quota_round");
    std::erase_if(fork.flags, [](const std::string& flag) {
      return flag == quality_flag::disturbed || flag == quality_flag::frozen || flag == quality_flag::quota ||
             flag.ends_with("_round");
    });
    if (disturbed) fork.flags.emplace_back(quality_flag::disturbed);
    if (stopped) fork.flags.emplace_back(quality_flag::quota);
  }
  validate_metrics(violations, cell, true);
  validate_flags(violations, cell);
  for (std::size_t i = 0; i < stored.size(); ++i) cell.forks[i].flags = std::move(stored[i]);
}

void validate_derived(Violations& violations, const CellReport& cell) {
  validate_metrics(violations, cell, false);
  validate_plan(violations, cell);
  validate_status(violations, cell);
  validate_flags(violations, cell);
}

void validate_marks(Violations& violations, const Report& report) {
  std::vector<CellReport> cells(report.cells.size());
  for (std::size_t i = 0; i < cells.size(); ++i) {
    cells[i].id = report.cells[i].id;
    cells[i].axes = report.cells[i].axes;
    cells[i].environment = report.cells[i].environment;
    for (const Fork& fork : report.cells[i].forks) cells[i].forks.push_back(marks_of(fork));
  }
  mark_disturbances(cells);
  for (std::size_t i = 0; i < cells.size(); ++i)
    for (std::size_t j = 0; j < cells[i].forks.size(); ++j) {
      std::vector<std::string> stored = report.cells[i].forks[j].flags, again = cells[i].forks[j].flags;
      std::ranges::sort(stored);
      std::ranges::sort(again);
      if (stored != again)
        violations.add(fmt::format("{}: the flags of round {} are [{}], but its rounds give [{}]",
                                   cells[i].id, cells[i].forks[j].round, fmt::join(stored, ", "),
                                   fmt::join(again, ", ")));
    }
}

}  // namespace assay
