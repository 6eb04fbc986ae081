#include "tests/unit/report/schema_judge.hpp"

#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validation_results.hpp>
#include <valijson/validator.hpp>

#include "harness/report/report_json.hpp"

namespace assay::test {

std::vector<std::string> schema_violations(const nlohmann::json& document) {
  using Adapter = valijson::adapters::NlohmannJsonAdapter;
  static const auto json = nlohmann::json::parse(report_schema_text());
  static const valijson::Schema& schema = *[] {
    auto* made = new valijson::Schema;
    valijson::SchemaParser(valijson::SchemaParser::kDraft7).populateSchema(Adapter(json), *made);
    return made;
  }();
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

}  // namespace assay::test
