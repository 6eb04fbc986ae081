#include "harness/conductor/print/printers.hpp"

#include <algorithm>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "harness/conductor/print/entries.hpp"
#include "harness/core/json/escape.hpp"
#include "harness/report/metric_table.hpp"
#include "harness/report/report_json.hpp"
#include "harness/report/time_spent.hpp"

namespace assay {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t max_log = 2000;

template <typename T>
Json known(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

template <typename Items, typename Encode>
Json list(const Items& items, const Encode& encode) {
  Json out = Json::array();
  for (const auto& item : items) out.push_back(encode(item));
  return out;
}

Json ratio_json(const std::optional<PairedRatio>& ratio) {
  if (!ratio) return nullptr;
  return {{"value", ratio->value},
          {"lower", known(ratio->lower)},
          {"upper", known(ratio->upper)},
          {"confidence", known(ratio->confidence)},
          {"least", ratio->least},
          {"greatest", ratio->greatest},
          {"n", ratio->n}};
}

Json metric_json(const Metric& metric) {
  Json out{{"value", known(metric.value)},
           {"lower", known(metric.lower)},
           {"upper", known(metric.upper)},
           {"confidence", known(metric.confidence)},
           {"n", metric.n},
           {"unit", metric.unit},
           {"hint", to_string(metric.hint)}};
  if (!metric.reason.empty()) out["reason"] = metric.reason;
  return out;
}

Json evaluation_json(const AnalyzedFork& fork, const Evaluation& evaluation) {
  return {{"epoch", evaluation.epoch},
          {"split", to_string(evaluation.split)},
          {"loss", evaluation.loss},
          {"accuracy", evaluation.accuracy},
          {"after_seconds", fork.seconds_until(evaluation.epoch)}};
}

Json fork_json(const AnalyzedFork& analyzed) {
  const Fork& fork = *analyzed.fork;
  Json epochs = Json::array();
  for (const auto& [epoch, seconds] : analyzed.epochs)
    epochs.push_back({{"epoch", epoch}, {"seconds", seconds}});
  return {{"round", fork.round},
          {"status", to_string(fork.status)},
          {"reason", fork.reason},
          {"clean", analyzed.clean},
          {"counted", analyzed.counted},
          {"flags", fork.flags},
          {"warnings", fork.warnings},
          {"compile_seconds", fork.compile_seconds},
          {"step_seconds", analyzed.time ? Json(analyzed.time->step_seconds) : Json(nullptr)},
          {"cpu_seconds", analyzed.time ? Json(analyzed.time->cpu_seconds) : Json(nullptr)},
          {"off", known(analyzed.off)},
          {"off_low", known(analyzed.off_low)},
          {"off_high", known(analyzed.off_high)},
          {"epochs", epochs},
          {"training_seconds", known(analyzed.training_seconds)},
          {"accuracy", analyzed.accuracy},
          {"evaluations", list(fork.evaluations, [&](const Evaluation& evaluation) {
             return evaluation_json(analyzed, evaluation);
           })}};
}

Json operator_json(const OperatorTime& time) { return {{"op", time.op}, {"seconds", time.seconds}}; }

Json point_json(const CurvePoint& point) {
  return {{"epoch", point.epoch},
          {"median", point.median},
          {"low", point.low},
          {"high", point.high},
          {"n", point.n}};
}

Json timeline_json(const std::optional<Timeline>& timeline) {
  if (!timeline) return nullptr;
  const auto phase = [](const Phase& one) {
    return Json{{"kind", one.kind}, {"begin", one.begin}, {"end", one.end}};
  };
  return {{"phases", list(timeline->phases, phase)},
          {"times", timeline->times},
          {"cpu", timeline->cpu},
          {"gpu", timeline->gpu}};
}

Json published_json(const AnalyzedCell& cell, const AnalyzedPublished& entry) {
  const Published& published = *entry.published;
  const auto metric = cell.cell->metrics.find(published.metric);
  const Hint hint = metric == cell.cell->metrics.end() ? Hint::number : metric->second.hint;
  return {{"metric", published.metric},
          {"value", known(published.value)},
          {"unit", published.unit},
          {"hint", to_string(published.to ? Hint::ratio : hint)},
          {"is_ratio", published.to.has_value()},
          {"other", known(entry.other)},
          {"measured", ratio_json(entry.measured)},
          {"samples_per_second", known(entry.samples_per_second)},
          {"source", published.source},
          {"statement", published.statement}};
}

// The axes by key; an axis that the cell does not have gets its default.
Json axes_json(const Axes& axes) {
  Json out = Json::object();
  for (const Axis& axis : axis_table())
    if (axis.has_field()) out[axis.key()] = axis_json(axis, axes);
  return out;
}

Json headings_of_axes() {
  Json out = Json::array();
  for (const Axis& axis : axis_table()) {
    if (!axis.has_field()) continue;
    std::string heading(axis.name());
    std::replace(heading.begin(), heading.end(), '-', ' ');
    out.push_back({{"key", axis.key()}, {"heading", heading}});
  }
  return out;
}

Json equivalence_json(const Equivalence& equivalence) {
  const auto tensor = [](const TensorVerdict& one) { return Json{{"name", one.name}, {"ratio", one.ratio}}; };
  return {{"checked", equivalence.checked},
          {"passed", equivalence.passed},
          {"worst", equivalence.worst},
          {"reason", equivalence.reason},
          {"tensors", list(equivalence.tensors, tensor)}};
}

std::string log_of(const CellReport& cell) {
  for (const Fork& fork : cell.forks)
    if (!fork.log_tail.empty())
      return fork.log_tail.substr(fork.log_tail.size() - std::min(fork.log_tail.size(), max_log));
  return "";
}

// As workers report them; skips malformed entries.
Json libraries_json(const nlohmann::json& libraries) {
  const auto text = [](const nlohmann::json& library, const char* key) {
    const auto found = library.find(key);
    return found != library.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  Json out = Json::array();
  if (!libraries.is_array()) return out;
  for (const auto& library : libraries)
    if (library.is_object())
      out.push_back({{"name", text(library, "name")}, {"version", text(library, "version")}});
  return out;
}

Json cell_json(const AnalyzedCell& analyzed) {
  const CellReport& cell = *analyzed.cell;
  Json metrics = Json::object();
  for (const auto& [name, metric] : cell.metrics) metrics[name] = metric_json(metric);
  return {
      {"id", cell.id},
      {"report", analyzed.report},
      {"group", analyzed.group},
      {"environment", known(cell.environment)},
      {"series", analyzed.series},
      {"mode", mode_words(cell.axes)},
      {"axes", axes_json(cell.axes)},
      {"variant", cell.axes.variant},
      {"is_op", cell.axes.is_op()},
      {"kind", to_string(cell.kind)},
      {"status", to_string(cell.status)},
      {"reason", cell.reason},
      {"flags", cell.flags},
      {"reproduce", cell.reproduce},
      {"backend_version", cell.backend_version},
      {"libraries", libraries_json(cell.libraries)},
      {"equivalence", equivalence_json(cell.equivalence)},
      {"clean", analyzed.clean},
      {"time", known(analyzed.time)},
      {"rank", known(analyzed.rank)},
      {"tied", analyzed.tied},
      {"base", known(analyzed.base)},
      {"ratio", ratio_json(analyzed.ratio)},
      {"taxed", analyzed.taxed},
      {"to_fastest", ratio_json(analyzed.to_fastest)},
      {"metrics", metrics},
      {"train_loss", list(analyzed.train_loss, point_json)},
      {"epoch_time", list(analyzed.epoch_time, point_json)},
      {"first_epoch_ratio", known(analyzed.first_epoch_ratio)},
      {"operators", list(analyzed.operators, operator_json)},
      {"spread", known(analyzed.spread)},
      {"work", {{"flops", cell.work.flops}, {"bytes", cell.work.bytes}}},
      {"memory_limit", known(analyzed.memory_limit)},
      {"arithmetic_limit", known(analyzed.arithmetic_limit)},
      {"published", list(analyzed.published,
                         [&](const AnalyzedPublished& entry) { return published_json(analyzed, entry); })},
      {"timeline", timeline_json(analyzed.timeline)},
      {"log_tail", log_of(cell)},
      {"forks", list(analyzed.forks, fork_json)}};
}

Json heading_json(const Heading& heading) { return {{"title", heading.title}, {"about", heading.about}}; }

Json group_json(const Analysis& all, const AnalyzedGroup& group) {
  Table notes;
  add_status_notes(notes, all, group);
  add_warning_notes(notes, all, group);
  return {{"title", group.title},
          {"heading", heading_json(group.heading)},
          {"family", group.family},
          {"is_op", group.is_op},
          {"rounds", group.rounds},
          {"answer", answer_of(all, group)},
          {"cells", group.cells},
          {"in_rank", group.in_rank},
          {"baselines", list(group.baselines, known<std::size_t>)},
          {"notes", notes.notes}};
}

Json leader_json(const std::optional<Leader>& leader) {
  if (!leader) return nullptr;
  const auto follower = [](const Follower& one) {
    return Json{{"series", one.series}, {"low", one.low}, {"high", one.high}};
  };
  return {{"series", leader->series},
          {"wins", leader->wins},
          {"sizes", leader->sizes},
          {"sure", leader->sure},
          {"followers", list(leader->followers, follower)}};
}

Json growth_json(const std::pair<std::string, Growth>& of_series) {
  const auto& [series, growth] = of_series;
  return {{"series", series},
          {"sizes", growth.sizes},
          {"smallest", growth.smallest},
          {"largest", growth.largest},
          {"fixed", ratio_json(growth.fixed)},
          {"each", ratio_json(growth.each)},
          {"doubling", ratio_json(growth.doubling)},
          {"misfit", growth.misfit}};
}

Json family_json(const AnalyzedFamily& family) {
  return {{"title", family.title},
          {"heading", heading_json(family.heading)},
          {"is_op", family.is_op},
          {"groups", family.groups},
          {"leader", leader_json(family.leader)},
          {"growth", list(family.growth, growth_json)}};
}

Json time_to_accuracy_json(const AnalyzedCell& cell, double target) {
  const auto found = time_to_accuracy(cell, target);
  if (!found) return nullptr;
  return {{"target", found->target},       {"split", to_string(found->split)},
          {"reached", found->reached},     {"forks", found->forks},
          {"value", known(found->value)},  {"lower", known(found->lower)},
          {"upper", known(found->upper)},  {"confidence", known(found->confidence)},
          {"epochs", known(found->epochs)}};
}

Json report_json(const Analysis& all, std::size_t i) {
  const Report& report = *all.reports[i];
  const auto cells = std::count_if(all.cells.begin(), all.cells.end(),
                                   [&](const AnalyzedCell& cell) { return cell.report == i; });
  return {{"label", all.labels[i]},
          {"cells", cells},
          {"run", report.run},
          {"environment", report.environment},
          {"environments", report.environments},
          {"time_spent", list(time_spent(report), [](const TimeShare& share) {
             return Json{{"name", share.name}, {"seconds", share.seconds}};
           })}};
}

Json row_json(const MetricRow& row) {
  return {{"name", row.name},
          {"unit", row.unit},
          {"hint", to_string(row.hint)},
          {"better", to_string(row.better)},
          {"section", to_string(row.section)},
          {"heading", row.heading},
          {"op_heading", row.op_heading},
          {"about", row.about}};
}

Json answer_json(const Analysis& all, const Question& question) {
  return {{"metric", question.metric},
          {"other_metric", question.other_metric.empty() ? question.metric : question.other_metric},
          {"cell", question.cell},
          {"other", known(question.other)},
          {"measured", ratio_json(answer_to(all, question))}};
}

Json plan_json(const AnalyzedPlan& plan) { return {{"cell", plan.cell}, {"persistent", plan.persistent}}; }

Json scaling_json(const AnalyzedScaling& scaling) {
  return {{"cell", scaling.cell},
          {"base", scaling.base},
          {"kind", to_string(scaling.kind)},
          {"efficiency", ratio_json(scaling.efficiency)}};
}

std::string line(const Json& json) {
  return with_escaped_controls(json.dump(-1, ' ', false, Json::error_handler_t::replace));
}

}  // namespace

std::string analysis_text(const Analysis& all, const std::vector<Question>& questions,
                          std::optional<double> accuracy) {
  std::string out = "{\"schema\": \"" + std::string(analysis_schema) + "\"";
  // Item by item, because JSON objects of the whole document would need many times the memory of its text.
  const auto add = [&out](const char* name, std::size_t count, const auto& item) {
    out += std::string(",\n\"") + name + "\": [";
    for (std::size_t i = 0; i < count; ++i) out += (i == 0 ? "\n" : ",\n") + line(item(i));
    out += "\n]";
  };
  const auto metrics = metric_table();
  add("metrics", metrics.size(), [&](std::size_t i) { return row_json(metrics[i]); });
  const Json axes = headings_of_axes();
  add("axes", axes.size(), [&](std::size_t i) { return axes[i]; });
  add("reports", all.reports.size(), [&](std::size_t i) { return report_json(all, i); });
  add("families", all.families.size(), [&](std::size_t i) { return family_json(all.families[i]); });
  add("groups", all.groups.size(), [&](std::size_t i) { return group_json(all, all.groups[i]); });
  add("plans", all.plans.size(), [&](std::size_t i) { return plan_json(all.plans[i]); });
  add("scaling", all.scaling.size(), [&](std::size_t i) { return scaling_json(all.scaling[i]); });
  add("answers", questions.size(), [&](std::size_t i) { return answer_json(all, questions[i]); });
  add("cells", all.cells.size(), [&](std::size_t i) {
    Json cell = cell_json(all.cells[i]);
    if (accuracy) cell["time_to_accuracy"] = time_to_accuracy_json(all.cells[i], *accuracy);
    return cell;
  });
  return out + "}\n";
}

}  // namespace assay
