// What was measured beside what others published.
#pragma once

#include "harness/conductor/print/table.hpp"
#include "harness/report/report.hpp"

namespace assay {

// Shrunk by --quick: nothing in it is a measurement.
bool is_quick(const Report& report);

// One row for each published entry; none for a quick run, and a note where the command line changed what the
// config says; without rows when nothing was published. A published ratio stands beside the ratio of the same
// two cells, whose direction is that of the metric: of times, of rates, of accuracies.
Table published_table(const Report& report);

}  // namespace assay
