#include "harness/report/metrics.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/core/statistics.hpp"
#include "harness/report/fork_time.hpp"
#include "harness/report/metric_computations.hpp"
#include "harness/report/metric_table.hpp"

namespace assay {
namespace {

using Sample = ForkValue;

// If a fork has no value the metric is null, because a median over fewer forks would have another meaning.
Metric over_forks(const Computation& row, const std::vector<const Fork*>& forks) {
  Metric metric = described_metric(row.name);
  std::vector<double> values;
  for (const Fork* fork : forks) {
    const Sample sample = row.sample(*fork);
    if (!sample.value || !std::isfinite(*sample.value)) {
      metric.reason = sample.reason.empty() ? "not finite" : sample.reason;
      return metric;
    }
    values.push_back(*sample.value);
  }
  if (values.empty()) {
    metric.reason = "every fork ran in the process of an earlier one";
    return metric;
  }
  metric.n = static_cast<int>(values.size());
  if (row.greatest) {
    metric.value = *std::ranges::max_element(values);
    return metric;
  }
  metric.value = median(values);
  if (follows_from_seed(row.name)) {
    std::set<std::pair<std::uint64_t, double>> observed;
    for (std::size_t i = 0; i < values.size(); ++i) observed.emplace(forks[i]->seed, values[i]);
    values.clear();
    for (const auto& [seed, value] : observed) values.push_back(value);
  }
  if (const auto interval = median_interval(values)) {
    metric.lower = interval->lower;
    metric.upper = interval->upper;
    metric.confidence = interval->confidence;
  }
  return metric;
}

Metric over_step_time(const Computation& row, const Metric& step) {
  Metric metric = described_metric(row.name);
  if (row.amount->value <= 0) {
    metric.reason = row.amount->reason;
    return metric;
  }
  if (!step.value || *step.value <= 0) {
    metric.reason = step.value ? "a step took no time" : step.reason;
    return metric;
  }
  metric.value = row.amount->value / *step.value;
  metric.n = step.n;
  if (step.lower && step.upper && *step.lower > 0) {
    metric.lower = row.amount->value / *step.upper;
    metric.upper = row.amount->value / *step.lower;
    metric.confidence = step.confidence;
  }
  return metric;
}

std::string not_ok(const CellReport& cell) { return fmt::format("the cell is {}", to_string(cell.status)); }

// Not a median: it is counted over all forks together.
Metric distinct_final_states(const CellReport& cell) {
  Metric metric = described_metric("distinct_final_states");
  std::set<std::uint64_t> seeds;
  std::set<std::string> digests;
  const std::vector<const Fork*> forks = ok_forks(cell);
  for (const Fork* fork : forks) {
    seeds.insert(fork->seed);
    digests.insert(fork->parameters_digest);
  }
  if (cell.status != Status::ok) {
    metric.reason = not_ok(cell);
  } else if (forks.size() < 2) {
    metric.reason = "a second fork is needed for the comparison";
  } else if (seeds.size() > 1) {
    metric.reason = "each round has its own seed; use --seed-per-round=false";
  } else if (digests.contains("")) {
    metric.reason = "the final state has no digest";
  } else {
    metric.value = static_cast<double>(digests.size());
    metric.n = static_cast<int>(forks.size());
  }
  return metric;
}

}  // namespace

std::vector<const Fork*> forks_of_metric(const CellReport& cell, std::string_view name) {
  const MetricRow* row = find_metric(name);
  if (row && row->every_fork) return ok_forks(cell);
  std::vector<const Fork*> forks = counted_forks(cell);
  if (name != "compile_time" && name != "start_time" && name != "first_answer_time") return forks;
  const auto is_resident = [](const Fork* fork) { return fork->resident; };
  std::erase_if(forks, is_resident);
  if (!forks.empty()) return forks;
  forks = ok_forks(cell);
  std::erase_if(forks, is_resident);
  return forks;
}

std::optional<double> fork_metric(const CellReport& cell, const Fork& fork, std::string_view metric) {
  for (const Computation& row : computations(cell.axes, cell.work)) {
    if (row.name != metric) continue;
    const Sample sample = row.sample(fork);
    return sample.value && std::isfinite(*sample.value) ? sample.value : std::nullopt;
  }
  return std::nullopt;
}

Metrics metrics_of(const CellReport& cell) {
  const bool timed = !counted_forks(cell).empty();
  Metrics metrics;
  for (const Computation& row : computations(cell.axes, cell.work)) {
    Metric& metric = metrics[row.name];
    if (cell.status != Status::ok || !timed) {
      metric = described_metric(row.name);
      metric.reason = cell.status == Status::ok ? "no fork was timed" : not_ok(cell);
    } else if (row.amount) {
      metric = over_step_time(row, metrics.at("step_time"));
    } else {
      metric = over_forks(row, forks_of_metric(cell, row.name));
    }
  }
  metrics["distinct_final_states"] = distinct_final_states(cell);
  return metrics;
}

}  // namespace assay
