#include "harness/conductor/docs/pages.hpp"

#include <nlohmann/json.hpp>

#include "harness/conductor/backends/backends.hpp"
#include "harness/conductor/docs/blocks.hpp"
#include "harness/conductor/docs/field_tables.hpp"
#include "harness/conductor/print/printers.hpp"
#include "harness/graph/op_reference.hpp"
#include "harness/report/axes.hpp"
#include "harness/report/merge.hpp"
#include "harness/report/metric_table.hpp"
#include "harness/report/report_json.hpp"
#include "harness/report/status.hpp"

namespace assay {
namespace {

// The root of the schema gets this name.
std::string document_tables(const std::string& schema_text, const std::string& name) {
  const nlohmann::json schema = nlohmann::json::parse(schema_text);
  nlohmann::json definitions = schema.at("definitions");
  definitions[name] = schema;
  return field_tables(definitions, {name}, 2);
}

std::string report_tables() { return document_tables(report_schema_text(), "report"); }
std::string analysis_tables() { return document_tables(analysis_schema_text(), "analysis"); }

// The backends of this program; those that ASSAY_BACKENDS adds are not the project's.
std::string op_support_table() { return support_page(find_backends_in(own_backend_folders(), {}).backends); }

}  // namespace

std::vector<Page> reference_pages() {
  return {
      {"analysis", "The analysis of reports", {{"fields", analysis_tables}}},
      {"axes", "Axes", {{"axes", axis_reference}}},
      {"configs", "The configs", {{"settings", setting_table}}},
      {"memory",
       "Memory plans",
       {{"plans", memory_plan_table},
        {"recomputation", recomputation_table},
        {"bounds", memory_bound_tables}}},
      {"metrics", "Metrics", {{"metrics", metric_reference}}},
      {"network", "Imported networks", {{"fields", network_tables}}},
      {"op-support", "Which backend has which op", {{"ops", op_support_table}}},
      {"operators", "Operators", {{"operators", operator_reference}}},
      {"protocol",
       "The worker protocol",
       {{"request", request_tables},
        {"original", original_tables},
        {"events", event_tables},
        {"backend", backend_tables}}},
      {"reason-codes", "Reason codes", {{"codes", reason_reference}, {"merge", merge_refusal_reference}}},
      {"report", "The report", {{"fields", report_tables}}},
  };
}

}  // namespace assay
