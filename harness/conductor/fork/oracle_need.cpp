#include "harness/conductor/fork/oracle_need.hpp"

#include <algorithm>
#include <initializer_list>
#include <set>

#include <fmt/format.h>

#include "harness/conductor/check/exam.hpp"
#include "harness/conductor/check/oracle.hpp"
#include "harness/conductor/fork/cell_folder.hpp"
#include "harness/conductor/fork/exams.hpp"
#include "harness/conductor/fork/work.hpp"
#include "harness/core/error.hpp"
#include "harness/core/text.hpp"
#include "harness/graph/memory_plan/summary.hpp"
#include "harness/graph/op.hpp"

namespace assay {
namespace {

constexpr double f32_bytes = 4, f64_bytes = 8;
// Of one thread of the reference, in all kernels of a network: docs/measurements/performance.md.
constexpr double flops_per_second = 1e10;
constexpr double process_bytes = 1e8;

double elements_of(const Graph& graph, Role role) {
  double elements = 0;
  for (const ValueId id : graph.with_role(role))
    elements += static_cast<double>(graph.value(id).type.elements());
  return elements;
}

// The elements that ops with one of these kinks read.
double elements_before(const Graph& graph, std::initializer_list<Kink> kinks) {
  double elements = 0;
  for (const Node& node : graph.nodes())
    if (std::ranges::find(kinks, node.op->kink(node.attributes)) != kinks.end())
      elements += static_cast<double>(graph.value(node.inputs[0]).type.elements());
  return elements;
}

struct StepNeed {
  double bytes = 0, flops = 0;
};

StepNeed step_need(const Program& program, Axes axes, PrecisionKind precision) {
  axes.precision = precision;
  if (axes.task == Task::decode) axes.task = Task::infer;  // the oracle has no caches
  const Graph step = step_of(program, axes);
  StepNeed need{static_cast<double>(peak_of(step, plain_bytes(step)).bytes), 0};
  for (const Node& node : step.nodes()) need.flops += cost(step, node).flops;
  return need;
}

}  // namespace

double OracleNeed::seconds(int threads) const { return flops / (flops_per_second * std::max(1, threads)); }

OracleNeed oracle_need(const Cell& cell) {
  const ExamPlan plan = exam_plan(cell, 1, false);
  const Program program = with_batch(*cell.program, distinct_of(*cell.program, plan));
  const bool op = program.is_op(), trains = program.trains(plan.task);
  const double batches = op ? 2 : static_cast<double>(exam_slots(plan.resident, 0, 1).size());

  // Elements of the state, and of all answers that are compared.
  const Graph& graph = program.graph(plan.task);
  const double parameters = elements_of(graph, Role::parameter);
  const double moments = trains ? parameters * static_cast<double>(program.moments().size()) : 0;
  // What the oracle moves by itself before a choice, in fp32 (harness/worker/kinks.hpp).
  const bool nudges = trains && precision_of(plan.precision).is_uniform();
  const double nudged = nudges ? elements_before(graph, {Kink::choice}) : 0;
  const double state = parameters + moments + elements_of(graph, Role::state) + nudged;
  double answers = 0;
  for (const Graph::Output& output : graph.outputs())
    answers += batches * static_cast<double>(graph.value(output.value).type.elements());
  if (trains) answers = 2 * state + parameters;  // after the first step and the last one, and the gradients
  const double watched = trains ? elements_before(graph, {Kink::at_zero, Kink::choice}) : 0;  // for ties

  const StepNeed exact = step_need(program, cell.axes, PrecisionKind::fp64);
  const StepNeed emulated = step_need(program, cell.axes, plan.precision);
  const double lanes = static_cast<double>(oracle_lanes(op, state - nudged, cell.axes.threads));
  // A program that trains is compiled twice: the step, and its gradients.
  const double programs = trains ? 2 : 1;
  // The answers of the exact run as tensors and as numbers to compare.
  const double kept = 2 * f64_bytes * answers;
  const double of_lane = (f32_bytes + f32_bytes) * state + programs * emulated.bytes +
                         (f32_bytes + f64_bytes) * (answers + watched) * (watched > 0 ? 2 : 1);
  const double of_exact = 2 * f64_bytes * state + programs * exact.bytes + f64_bytes * watched;
  OracleNeed need;
  need.bytes = process_bytes + f32_bytes * state + kept + f64_bytes * nudged +
               std::max({of_exact, lanes * of_lane, f64_bytes * answers});

  // The step that is judged by itself, the others, one with an extreme logit, and two evaluations.
  const double steps = op || !trains ? batches : std::max(3.0, batches) + 4;
  const double runs = 2 + perturbations + (watched > 0 ? 6 : 0), first_steps = watched > 0 ? 12 : 0;
  need.flops = (runs * steps + first_steps) * exact.flops;
  return need;
}

std::string why_too_large(const OracleNeed& need, std::optional<std::int64_t> available_bytes) {
  if (!available_bytes || need.bytes <= static_cast<double>(*available_bytes)) return {};
  return fmt::format("the oracle needs about {:.2g} GB of memory, and {:.2g} GB are available",
                     need.bytes / 1e9, static_cast<double>(*available_bytes) / 1e9);
}

std::vector<std::string> doubts_about_exams(const std::vector<Cell>& cells, double time_limit,
                                            std::optional<std::int64_t> available_bytes) {
  std::vector<std::string> doubts;
  std::set<std::string> met;
  for (const Cell& cell : cells) {
    if (!cell.runnable() || !cell.check || !met.insert(cell.group()).second) continue;
    OracleNeed need;
    try {
      need = oracle_need(cell);
    } catch (const GraphError&) {
      continue;  // the run gives it the reason
    }
    const double seconds = need.seconds(cell.axes.threads);
    if (const std::string why = why_too_large(need, available_bytes); !why.empty())
      doubts.push_back(fmt::format(
          "{} cannot be proven equal here: {}. Use a machine with more memory, or --check false: the cell is then "
          "timed, and has no rank.",
          cell.group(), why));
    else if (seconds > time_limit)
      doubts.push_back(fmt::format(
          "{}: the oracle may take {} for an exam, which is longer than --time-limit allows ({}). Use fewer --distinct "
          "samples, or a longer --time-limit.",
          cell.group(), duration_text(seconds), duration_text(time_limit)));
  }
  return doubts;
}

}  // namespace assay
