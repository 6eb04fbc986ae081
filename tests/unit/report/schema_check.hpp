// Whether a document satisfies a generated schema, by a library that is independent of our decoder.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace assay::test {

// The errors, each with its path; empty if the document is valid.
std::vector<std::string> schema_violations(const nlohmann::json& document, const std::string& schema_text);
// By the report's schema.
std::vector<std::string> schema_violations(const nlohmann::json& report);

}  // namespace assay::test
