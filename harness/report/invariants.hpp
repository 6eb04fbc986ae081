// What a schema cannot say of a report: the numbers must agree with each other.
#pragma once

#include <string>
#include <vector>

#include "harness/report/report.hpp"

namespace assay {

// Each as "<cell id>: what is wrong"; empty when the report holds together. Pure; any Report is judged.
std::vector<std::string> invariant_violations(const Report& report);

// A fork whose numbers count: ok and without a quality flag.
bool is_clean(const Fork& fork);
// Whether the cell may be ranked against others: ok, proven equivalent (or the oracle itself), no quality
// flag.
bool is_clean(const CellReport& cell);

}  // namespace assay
