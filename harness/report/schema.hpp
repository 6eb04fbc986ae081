// The report's JSON Schema (draft 7), compiled into the program, and the validation against it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace assay {

class StrictDocument;

// The text of results/schema/report-1.schema.json.
std::string_view report_schema_text();

// What the schema finds wrong, each as "cells/3/batch: …", outermost first; empty when the document is valid.
// At most `limit` findings. Stops at nothing: any document is judged.
std::vector<std::string> schema_violations(const nlohmann::json& document, std::size_t limit = 20);
// The same; a valid document of 200 MB takes a fraction of a second.
std::vector<std::string> schema_violations(const StrictDocument& document, std::size_t limit = 20);

}  // namespace assay
