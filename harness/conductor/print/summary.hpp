// The tables of a report: per comparison group the times, the learning and the resources, then what was
// published.
#pragma once

#include <vector>

#include "harness/conductor/print/table.hpp"
#include "harness/report/report.hpp"

namespace assay {

// Only clean rows are ranked and have ratios; the others follow with their status, and their reason stands
// under the table.
std::vector<Table> summary(const Report& report);
// Tensor by tensor, worst first: what `assay check` shows.
Table equivalence_table(const CellReport& cell);

}  // namespace assay
