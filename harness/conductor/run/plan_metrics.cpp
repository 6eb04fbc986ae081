#include "harness/conductor/run/plan_metrics.hpp"

#include "harness/core/error.hpp"
#include "harness/graph/memory_plan/summary.hpp"

namespace assay {
namespace {

Metric of(Hint hint, const char* unit) {
  Metric metric;
  metric.unit = unit;
  metric.hint = hint;
  return metric;
}

Metric known(double value, Hint hint, const char* unit) {
  Metric metric = of(hint, unit);
  metric.value = value;
  metric.n = 1;
  return metric;
}

}  // namespace

Metrics plan_metrics(const Cell& cell) {
  try {
    const Program program = cell.program();
    const Precision precision = parse_precision(cell.axes.precision);
    const Graph step = cell.axes.task == "train" ? training_step(program, {.precision = precision})
                                                 : inference_step(program, precision);
    const ArenaSummary arena = plan_sizes(step);
    const auto bytes = [](std::int64_t size) { return known(static_cast<double>(size), Hint::bytes, "B"); };
    const double saving = static_cast<double>(arena.naive) / static_cast<double>(arena.co_share);
    return {{"plan_naive", bytes(arena.naive)},
            {"plan_in_place", bytes(arena.in_place)},
            {"plan_co_share", bytes(arena.co_share)},
            {"plan_lower_bound", bytes(arena.lower_bound)},
            {"plan_saving", known(saving, Hint::ratio, "1")}};
  } catch (const GraphError& error) {
    Metrics metrics;
    for (const char* name : {"plan_naive", "plan_in_place", "plan_co_share", "plan_lower_bound"}) {
      metrics[name] = of(Hint::bytes, "B");
    }
    metrics["plan_saving"] = of(Hint::ratio, "1");
    for (auto& [name, metric] : metrics) metric.reason = error.what();
    return metrics;
  }
}

}  // namespace assay
