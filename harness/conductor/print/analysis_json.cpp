#include "harness/conductor/print/printers.hpp"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "harness/conductor/print/analysis_document.hpp"
#include "harness/conductor/print/entries.hpp"
#include "harness/core/json/encode.hpp"
#include "harness/core/json/escape.hpp"
#include "harness/core/json/schema.hpp"
#include "harness/core/json/strict_json.hpp"

namespace assay {

// ---- fields that are no members

std::optional<double> step_seconds(const AnalyzedFork& fork) {
  return fork.time ? std::optional(fork.time->step_seconds) : std::nullopt;
}

std::optional<double> cpu_seconds(const AnalyzedFork& fork) {
  return fork.time ? std::optional(fork.time->cpu_seconds) : std::nullopt;
}

std::vector<EpochTime> epoch_times(const AnalyzedFork& fork) {
  std::vector<EpochTime> times;
  for (const auto& [epoch, seconds] : fork.epochs) times.push_back({epoch, seconds});
  return times;
}

std::vector<EvaluationInTime> evaluations(const AnalyzedFork& fork) {
  std::vector<EvaluationInTime> list;
  for (const Evaluation& evaluation : fork.fork->evaluations)
    list.push_back({evaluation, fork.seconds_until(evaluation.epoch)});
  return list;
}

std::string mode_of(const AnalyzedCell& cell) { return mode_words(cell.cell->axes); }

nlohmann::json axes_of(const AnalyzedCell& cell) {
  nlohmann::json out = nlohmann::json::object();
  for (const Axis& axis : axis_table())
    if (axis.has_field()) out[axis.key()] = axis_json(axis, cell.cell->axes);
  return out;
}

std::map<std::string, std::string> variant_of(const AnalyzedCell& cell) { return cell.cell->axes.variant; }

bool is_tied(const AnalyzedCell& cell) { return cell.tied(); }

bool is_of_op(const AnalyzedCell& cell) { return cell.cell->axes.is_op(); }

std::vector<HostShare> hosts_of_cell(const AnalyzedCell& cell) { return host_shares(*cell.cell); }

std::vector<NamedLibrary> libraries_of(const AnalyzedCell& cell) {
  std::vector<NamedLibrary> list;
  for (const protocol::Library& library : cell.cell->libraries)
    list.push_back({library.name, library.version});
  return list;
}

EquivalenceOfCell equivalence_of(const AnalyzedCell& cell) {
  EquivalenceOfCell out{&cell.cell->equivalence, {}};
  for (const TensorVerdict& tensor : cell.cell->equivalence.tensors) out.tensors.push_back({tensor});
  return out;
}

std::map<std::string, MetricWithReason> metrics_of(const AnalyzedCell& cell) {
  std::map<std::string, MetricWithReason> metrics;
  for (const auto& [name, metric] : cell.cell->metrics) metrics[name] = {metric};
  return metrics;
}

WorkOfStep work_of(const AnalyzedCell& cell) { return {cell.cell->work}; }

std::string log_of(const AnalyzedCell& cell) {
  constexpr std::size_t max_log = 2000;
  for (const Fork& fork : cell.cell->forks)
    if (!fork.log_tail.empty())
      return fork.log_tail.substr(fork.log_tail.size() - std::min(fork.log_tail.size(), max_log));
  return "";
}

// ---- the document

namespace {

std::vector<AxisHeading> headings_of_axes() {
  std::vector<AxisHeading> headings;
  for (const Axis& axis : axis_table()) {
    if (!axis.has_field()) continue;
    std::string heading(axis.name());
    std::replace(heading.begin(), heading.end(), '-', ' ');
    headings.push_back({std::string(axis.key()), std::move(heading)});
  }
  return headings;
}

AnalyzedReport report_of(const Analysis& all, std::size_t i) {
  const auto is_of_it = [&](const AnalyzedCell& cell) { return cell.report == i; };
  return {.report = all.reports[i],
          .label = all.labels[i],
          .cells = static_cast<std::size_t>(std::ranges::count_if(all.cells, is_of_it)),
          .time_spent = time_spent(*all.reports[i]),
          .flag_rates = flag_rates(*all.reports[i])};
}

GroupWithTexts with_texts(const Analysis& all, const AnalyzedGroup& group) {
  Table notes;
  add_status_notes(notes, all, group);
  add_warning_notes(notes, all, group);
  return {group, answer_of(all, group), std::move(notes.notes)};
}

Answer answer_for(const Analysis& all, Question question) {
  if (question.other_metric.empty()) question.other_metric = question.metric;
  return {question, answer_to(all, question)};
}

AnalysisDocument document_of(Analysis all, const std::vector<Question>& questions,
                             std::optional<double> accuracy) {
  AnalysisDocument document{std::move(all)};
  const Analysis& whole = document;
  document.schema = analysis_schema;
  document.metrics = {metric_table().begin(), metric_table().end()};
  document.axes = headings_of_axes();
  for (std::size_t i = 0; i < whole.reports.size(); ++i)
    document.reports_of_cells.push_back(report_of(whole, i));
  for (const AnalyzedGroup& group : whole.groups)
    document.groups_with_texts.push_back(with_texts(whole, group));
  for (const Question& question : questions) document.answers.push_back(answer_for(whole, question));
  if (accuracy)
    for (AnalyzedCell& cell : document.cells) cell.time_to_accuracy = time_to_accuracy(cell, *accuracy);
  return document;
}

std::string line(const nlohmann::json& json) {
  return with_escaped_controls(json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

}  // namespace

std::string analysis_text(Analysis all, const std::vector<Question>& questions,
                          std::optional<double> accuracy) {
  const AnalysisDocument document = document_of(std::move(all), questions, accuracy);
  std::string out;
  // Item by item, because JSON objects of the whole document would need many times the memory of its text.
  for (const Field& field : describe(Of<AnalysisDocument>{}).list) {
    out += (out.empty() ? "{\"" : ",\n\"") + std::string(field.key) + "\": ";
    const void* member = field.of(static_cast<const void*>(&document));
    if (const auto* list = field.type->as<ListType>()) {
      out += '[';
      for (std::size_t i = 0; i < list->size(member); ++i)
        out += (i == 0 ? "\n" : ",\n") + line(encode_as(*list->inner, list->at(member, i)));
      out += "\n]";
    } else {
      out += line(encode_as(*field.type, member));
    }
  }
  return out + "}\n";
}

std::string analysis_schema_text() {
  SchemaMaker maker;
  nlohmann::json schema = maker.object<AnalysisDocument>();
  schema["$schema"] = "http://json-schema.org/draft-07/schema#";
  schema["$id"] = "assay-analysis-1";
  schema["title"] = "Assay analysis";
  schema["properties"]["schema"]["const"] = analysis_schema;
  schema["definitions"] = maker.definitions();
  return strict_json_text(schema);
}

}  // namespace assay
