// A comparison for people: tables for a terminal or a pull request.
#pragma once

#include <vector>

#include "harness/conductor/compare/compare.hpp"
#include "harness/conductor/print/table.hpp"

namespace assay {

// Verdicts, worst first, and what differs between the environments. `most` rows (0: all); a note counts the
// rest.
std::vector<Table> comparison_tables(const Comparison& comparison, std::size_t most = 0);

}  // namespace assay
