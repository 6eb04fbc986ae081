// Whether a document satisfies the report's generated schema, by a library that knows nothing of our decoder.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace assay::test {

// What it finds wrong, each with its path; empty when the document is valid.
std::vector<std::string> schema_violations(const nlohmann::json& document);

}  // namespace assay::test
