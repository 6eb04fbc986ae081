// The fields of JSON objects as Markdown, from the JSON Schema that the program makes of its structs.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace assay {

// For each object a heading with its name, its description and a table of its fields: first those of `names`, then
// those that they refer to, in the order of the first reference. `definitions` are the definitions of the schema;
// `level` is the number of # of a heading. Precondition: `definitions` has every name.
std::string field_tables(const nlohmann::json& definitions, const std::vector<std::string>& names,
                         std::size_t level);

}  // namespace assay
