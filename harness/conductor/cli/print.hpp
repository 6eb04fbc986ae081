// What a command writes: results to stdout, everything else to stderr.
#pragma once

#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "harness/conductor/print/table.hpp"

namespace assay::cli {

// Throw std::system_error when stdout cannot take it (a full disk, a closed pipe).
void print(std::string_view text);
void print(const std::vector<Table>& tables);
void print_json(const nlohmann::json& json);

// A line to stderr: "assay: …".
void warn(std::string_view text);

}  // namespace assay::cli
