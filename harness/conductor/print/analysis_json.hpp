// The analysis of reports as JSON, for programs that draw it or look something up: docs/analysis.md.
#pragma once

#include <string>

#include "harness/report/analysis.hpp"

namespace assay {

inline constexpr const char* analysis_schema = "assay-analysis/1";

// Strict JSON, one line for each cell, group and family. What is not finite is null.
std::string analysis_text(const Analysis& all);

}  // namespace assay
