#include "harness/conductor/compare/cell_decision.hpp"

#include <fmt/format.h>

#include "harness/conductor/print/table.hpp"
#include "harness/report/fork_time.hpp"
#include "harness/report/metrics.hpp"

namespace assay {
namespace {

// A backend that is not set up is not expected to run, so that is not a failure.
bool went_wrong(Status status) { return status != Status::unsupported && status != Status::unavailable; }

}  // namespace

CellVerdict decide_pair(const CellReport& base, const CellReport& current, const std::string& metric,
                        const BreakageSettings& breakage_settings,
                        const std::function<CellVerdict()>& decide) {
  CellVerdict cell;
  if (base.status == Status::ok && current.status == Status::ok) {
    const auto found = base.metrics.find(metric);
    const Metric described = found == base.metrics.end() ? Metric{} : found->second;
    cell = decide();
    cell.unit = described.unit;
    cell.hint = described.hint;
  }
  cell.id = base.id;
  cell.metric = metric;
  if (const auto what = breakage(base, current, breakage_settings)) {
    // An uncertain fall of accuracy does not hide that the cell is slower.
    if (what->certain || cell.verdict != Verdict::slower) {
      cell.verdict = what->certain ? Verdict::broken : Verdict::inconclusive;
      cell.reason = what->words;
    }
  } else if (base.status != Status::ok && current.status == Status::ok) {
    cell.verdict = Verdict::added;
    cell.reason = fmt::format("the status was {} in the baseline and is ok now", to_string(base.status));
  } else if (base.status != Status::ok) {
    cell.verdict = Verdict::unmeasured;
    cell.failed = went_wrong(base.status) || went_wrong(current.status);
    cell.reason = fmt::format("the status was {} in the baseline and is {} now{}{}", to_string(base.status),
                              to_string(current.status), current.reason.empty() ? "" : ": ",
                              one_line(current.reason, 200));
  }
  return cell;
}

std::vector<double> fork_values(const CellReport& cell, std::string_view metric,
                                const UsualPlacement& usual) {
  std::vector<double> values;
  for (const Fork* fork : counted_forks(cell)) {
    if (usual.is_moved(cell, *fork)) continue;
    const std::optional<double> value = fork_metric(cell, *fork, metric);
    if (!value) return {};
    values.push_back(*value);
  }
  return values;
}

std::string main_metric(const Axes& axes) {
  if (axes.measure.starts_with("epochs")) return axes.measure == "epochs:1" ? "training_time" : "epoch_time";
  // The calls of a single op are not timed individually.
  if (axes.is_op() || axes.task == Task::train) return "step_time";
  return axes.task == Task::infer ? "latency_p50" : "token_time_p50";
}

}  // namespace assay
