#include "harness/conductor/compare/fork_values.hpp"

#include "harness/conductor/run/metrics.hpp"
#include "harness/report/fork_time.hpp"

namespace assay {

std::vector<double> fork_values(const CellReport& cell, std::string_view metric) {
  std::vector<double> values;
  for (const Fork* fork : counted_forks(cell)) {
    const std::optional<double> value = fork_metric(cell, *fork, metric);
    if (!value) return {};
    values.push_back(*value);
  }
  return values;
}

std::string main_metric(const Axes& axes) {
  if (axes.measure.starts_with("epochs")) return axes.measure == "epochs:1" ? "training_time" : "epoch_time";
  // Calls of a single op are not timed one by one.
  return axes.task == Task::infer && !axes.is_op() ? "latency_p50" : "step_time";
}

}  // namespace assay
