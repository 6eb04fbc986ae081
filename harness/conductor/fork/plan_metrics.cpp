#include "harness/conductor/fork/work.hpp"

#include <utility>

#include "harness/core/error.hpp"
#include "harness/graph/memory_plan/summary.hpp"
#include "harness/report/metric_table.hpp"

namespace assay {
namespace {

Metric known(const char* name, double value) {
  Metric metric = described_metric(name);
  metric.value = value;
  metric.n = 1;
  return metric;
}

}  // namespace

Metrics plan_metrics(const Cell& cell) {
  try {
    const Graph step = step_of(*cell.program, cell.axes);
    const ArenaSummary arena = plan_sizes(step);
    const auto size = [](std::int64_t bytes) { return static_cast<double>(bytes); };
    const std::pair<const char*, double> values[] = {
        {"plan_naive", size(arena.naive)},
        {"plan_in_place", size(arena.in_place)},
        {"plan_co_share_only", size(arena.co_share_only)},
        {"plan_co_share", size(arena.co_share)},
        {"plan_lower_bound", size(arena.lower_bound)},
        {"plan_saving", size(arena.naive) / size(arena.co_share)}};
    Metrics metrics;
    for (const auto& [name, value] : values) metrics[name] = known(name, value);
    return metrics;
  } catch (const GraphError& error) {
    Metrics metrics;
    for (const MetricRow& row : metric_table()) {
      if (row.section != Section::memory_plans) continue;
      Metric metric = described_metric(row.name);
      metric.reason = error.what();
      metrics.emplace(row.name, metric);
    }
    return metrics;
  }
}

}  // namespace assay
