// The report's JSON Schema (draft 7), made from the description of its structs (report_fields.hpp).
#pragma once

#include <string>

namespace assay {

// The text of results/schema/report-2.schema.json.
std::string report_schema_text();

}  // namespace assay
