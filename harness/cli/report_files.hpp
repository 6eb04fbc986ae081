// Reports as a command takes them: a path, or "-" for standard input.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "harness/report/report.hpp"

namespace assay::cli {

// Throw JsonError naming the file.
nlohmann::json load_json(const std::string& file);
Report load_report(const std::string& file);

}  // namespace assay::cli
