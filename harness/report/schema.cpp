#include "harness/report/schema.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validation_results.hpp>
#include <valijson/validator.hpp>

#include "harness/report/schema_check.hpp"
#include "harness/report/strict_document.hpp"

namespace assay {
namespace {

std::string path_text(const std::vector<std::string>& context) {
  std::string out;
  for (const std::string& part : context) {
    // The validator writes "<root>", then "[name]" for each step down.
    if (part.empty() || part.front() == '<') continue;
    if (!out.empty()) out += '/';
    out += part.front() == '[' ? part.substr(1, part.size() - 2) : part;
  }
  return out.empty() ? "the report" : out;
}

bool repeats_its_children(std::string_view what) {
  return what.starts_with("Failed to validate") || what.starts_with("Object failed to validate");
}

}  // namespace

std::vector<std::string> schema_violations(const StrictDocument& document, std::size_t limit) {
  static const auto schema = nlohmann::json::parse(report_schema_text());
  static const SchemaCheck check(schema);
  if (check.holds(document.root())) return {};
  auto found = schema_violations(to_json(document.root()), limit);
  if (found.empty()) found.emplace_back("the report: does not satisfy the schema");
  return found;
}

std::vector<std::string> schema_violations(const nlohmann::json& document, std::size_t limit) {
  using Adapter = valijson::adapters::NlohmannJsonAdapter;
  const auto schema_json = nlohmann::json::parse(report_schema_text());
  valijson::Schema schema;
  valijson::SchemaParser(valijson::SchemaParser::kDraft7).populateSchema(Adapter(schema_json), schema);

  valijson::ValidationResults results;
  if (valijson::Validator().validate(schema, Adapter(document), &results)) return {};
  std::vector<std::string> causes, all;
  valijson::ValidationResults::Error error;
  while (results.popError(error)) {
    const std::string text =
        fmt::format("{}: {}", path_text(error.context), error.description.substr(0, 300));
    all.push_back(text);
    if (!repeats_its_children(error.description)) causes.push_back(text);
  }
  auto& found = causes.empty() ? all : causes;
  found.erase(std::unique(found.begin(), found.end()), found.end());
  if (found.size() > limit) found.resize(limit);
  return found;
}

}  // namespace assay
