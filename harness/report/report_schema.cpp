#include "harness/report/report_schema.hpp"

#include "harness/core/json/schema.hpp"
#include "harness/report/report_fields.hpp"
#include "harness/report/report_json.hpp"

namespace assay {

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
