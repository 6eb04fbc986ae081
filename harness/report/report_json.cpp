#include "harness/report/report_json.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "harness/core/json/decode.hpp"
#include "harness/core/json/encode.hpp"
#include "harness/core/json/schema.hpp"
#include "harness/report/invariants.hpp"
#include "harness/report/metrics.hpp"
#include "harness/report/report_fields.hpp"

namespace assay {
namespace {

using Json = nlohmann::json;

// The schema that the document names. Throws JsonError if this program does not read that schema.
std::string_view schema_of(const Json& document, std::string_view where) {
  const auto fail = [&](const std::string& what) { throw JsonError(fmt::format("{}: {}", where, what)); };
  const auto found = document.find("schema");
  if (found == document.end() || !found->is_string())
    fail(fmt::format("not an Assay report: it has no \"schema\": \"{}\"", report_schema));
  std::string_view schema = found->get_ref<const std::string&>();
  if (schema == report_schema || schema == first_report_schema) return schema;
  schema = schema.substr(0, 80);
  if (schema.starts_with("assay-report/"))
    fail(fmt::format("has the schema {}, but this program reads {} and {}: use the Assay that wrote it",
                     schema, first_report_schema, report_schema));
  fail(fmt::format("has the schema \"{}\", not \"{}\"", schema, report_schema));
  return {};
}

// What a report with earlier rules says is derived again and used no more, but it should be what was measured.
void validate_by_earlier_rules(Report& report, std::vector<std::string>& found) {
  if (report.rules != 3) return;
  for (CellReport& cell : report.cells) {
    Violations violations(cell.id.substr(0, 200));
    validate_by_rules_3(violations, cell);
    found.insert(found.end(), violations.found().begin(), violations.found().end());
  }
}

template <typename E>
bool is_unknown_word(const Json& row, const char* key) {
  const auto found = row.is_object() ? row.find(key) : row.end();
  return row.is_object() && found != row.end() && found->is_string() &&
         !from_word<E>(found->template get_ref<const std::string&>());
}

// A later version may have other statuses and reason codes: such a row is read as failed, with the word in its reason.
void replace_later_words(Json& row) {
  if (is_unknown_word<Status>(row, "status")) {
    const std::string reason =
        row.contains("reason") && row["reason"].is_string() ? row["reason"].get<std::string>() : "";
    row["reason"] = fmt::format("the status '{}' of a later version{}{}",
                                row["status"].get_ref<const std::string&>().substr(0, 80),
                                reason.empty() ? "" : ": ", reason);
    row["status"] = to_string(Status::failed);
    row.erase("reason_code");
  } else if (is_unknown_word<ReasonCode>(row, "reason_code")) {
    row.erase("reason_code");
  }
}

bool is_later(const Json& document) {
  const auto minor = document.find("schema_minor");
  return minor != document.end() && minor->is_number_integer() && *minor > report_schema_minor;
}

Json with_known_words(Json document) {
  if (!document.contains("cells") || !document["cells"].is_array()) return document;
  for (Json& cell : document["cells"]) {
    replace_later_words(cell);
    if (is_unknown_word<BackendKind>(cell, "kind")) cell["kind"] = to_string(BackendKind::framework);
    if (!cell.is_object() || !cell.contains("forks") || !cell["forks"].is_array()) continue;
    for (Json& fork : cell["forks"]) replace_later_words(fork);
  }
  return document;
}

Report read(const Json& document, std::string_view where, std::string_view prefix, DecodeOptions options) {
  options.older_forms = schema_of(document, where) == first_report_schema;
  options.reject_unknown = options.reject_unknown && !options.older_forms;
  Report report;
  report.rules = 1;  // the first ones were not numbered
  decode(is_later(document) ? with_known_words(document) : document, report, prefix, options);
  if (options.violations) validate_by_earlier_rules(report, *options.violations);
  derive_again(report);
  return report;
}

// An estimate that is not finite has no value, only a reason.
void settle(Json& metric) {
  const auto finite = [&](const char* key) {
    return metric.contains(key) && metric[key].is_number() && std::isfinite(metric[key].get<double>());
  };
  if (!finite("value") || !finite("lower") || !finite("upper"))
    for (const char* key : {"lower", "upper", "confidence"}) metric.erase(key);
  if (finite("value") || metric["value"].is_null()) return;
  if (!metric.contains("reason"))
    metric["reason"] = fmt::format("not finite: {}", metric["value"].get<double>());
  metric["value"] = nullptr;
}

int minor_of(const Report& report) {
  int minor = report.run.shard || report.run.weights || !report.environments.empty() ? 2 : 1;
  if (!report.run.ended.empty()) minor = 11;
  if (!report.hosts.empty()) return 14;
  const auto is_runtime = [](const CellReport& cell) { return cell.kind == BackendKind::runtime; };
  if (std::ranges::any_of(report.cells, is_runtime)) return 13;
  for (const CellReport& cell : report.cells)
    if (std::ranges::any_of(cell.libraries, &protocol::Library::under_test)) minor = 11;
  for (const CellReport& cell : report.cells)
    for (const Fork& fork : cell.forks) {
      const auto measured = [](const RankRecord& rank) { return rank.exchange.has_value(); };
      const auto waited = [](const auto& one) { return one.disturbance && one.disturbance->waited_ns; };
      if (fork.disturbance && fork.disturbance->seen_ns) minor = std::max(minor, 11);
      if (!fork.adapter_digest.empty()) minor = std::max(minor, 10);
      if (waited(fork) || std::ranges::any_of(fork.ranks, waited)) minor = std::max(minor, 9);
      if (fork.loopback_bytes || std::ranges::any_of(fork.ranks, measured)) minor = std::max(minor, 8);
      if (!fork.ranks.empty()) minor = std::max(minor, 7);
      if (fork.placement) minor = std::max(minor, 6);
      if (fork.host_start_rss > 0) minor = std::max(minor, 5);
      if (fork.examined) minor = std::max(minor, 4);
      for (const Block& block : fork.blocks) {
        if (block.accuracy) return 12;
        if (block.minor_faults) minor = std::max(minor, 5);
        if (block.enqueue_ns > 0) minor = std::max(minor, 3);
      }
    }
  return minor;
}

}  // namespace

Json to_json(const Report& report) {
  Json out = encode(report);
  out["schema"] = report_schema;
  out["schema_minor"] = minor_of(report);
  for (Json& cell : out["cells"])
    for (Json& metric : cell["metrics"]) settle(metric);
  return out;
}

std::string report_text(const Report& report) { return strict_json_text(to_json(report)); }

Report report_from(const Json& document, std::string_view where) { return read(document, where, where, {}); }

Report report_from(const Json& document, std::string_view where, bool strict,
                   std::vector<std::string>& violations) {
  return read(document, where, "", {.reject_unknown = strict, .violations = &violations});
}

Report parse_report(std::string_view text, std::string_view where) {
  return report_from(parse_strict_json(text, where), where);
}

Report read_report(const std::filesystem::path& file) {
  return report_from(read_strict_json(file), file.string());
}

std::string other_rules(const Report& report) {
  if (report.rules == derivation_rules) return {};
  return fmt::format(
      "its flags and metrics follow rules {}, but this program has rules {}: they may have another meaning",
      report.rules, derivation_rules);
}

std::string report_schema_text() {
  SchemaMaker maker;
  nlohmann::json schema = maker.object<Report>();
  schema["$schema"] = "http://json-schema.org/draft-07/schema#";
  schema["$id"] = "assay-report-2";
  schema["title"] = "Assay report";
  schema["properties"]["schema"]["const"] = report_schema;
  schema["definitions"] = maker.definitions();
  return strict_json_text(schema);
}

}  // namespace assay
