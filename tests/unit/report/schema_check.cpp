#include "tests/unit/report/schema_check.hpp"

#include <map>

#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validation_results.hpp>
#include <valijson/validator.hpp>

#include "harness/report/report_json.hpp"

namespace assay::test {

namespace {

using Adapter = valijson::adapters::NlohmannJsonAdapter;

const valijson::Schema& parsed(const std::string& text) {
  static std::map<std::string, valijson::Schema> schemas;
  const auto [entry, is_new] = schemas.try_emplace(text);
  if (is_new) {
    const auto json = nlohmann::json::parse(text);
    valijson::SchemaParser(valijson::SchemaParser::kDraft7).populateSchema(Adapter(json), entry->second);
  }
  return entry->second;
}

std::vector<std::string> violations(const nlohmann::json& document, const valijson::Schema& schema) {
  valijson::ValidationResults results;
  if (valijson::Validator().validate(schema, Adapter(document), &results)) return {};
  std::vector<std::string> found;
  valijson::ValidationResults::Error error;
  while (results.popError(error)) {
    std::string path;
    for (const std::string& step : error.context) path += step;
    found.push_back(path + ": " + error.description.substr(0, 300));
  }
  return found;
}

}  // namespace

std::vector<std::string> schema_violations(const nlohmann::json& document, const std::string& schema_text) {
  return violations(document, parsed(schema_text));
}

std::vector<std::string> schema_violations(const nlohmann::json& report) {
  static const valijson::Schema& schema = parsed(report_schema_text());
  return violations(report, schema);
}

}  // namespace assay::test
