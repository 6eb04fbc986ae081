// The tables of a report. printers.hpp prints them.
#pragma once

#include <vector>

#include "harness/conductor/print/table.hpp"
#include "harness/report/analysis.hpp"
#include "harness/report/report.hpp"

namespace assay {

// The tables of a report: per comparison group the times, the learning and the resources, then what was
// published.

// Only clean rows are ranked and have ratios; the others follow with their status, and their reason stands
// under the table.
std::vector<Table> summary(const Report& report);
// Tensor by tensor, worst first: what `assay check` shows.
Table equivalence_table(const CellReport& cell);

// How training went: the loss after each epoch, for those who look for the shape of a curve.

// One row a cell of the group that evaluated five epochs or more: the training loss, median over the forks
// that count, at ten epochs or fewer, the first and the last among them. Without rows where no cell did.
Table loss_curves(const Analysis& all, const AnalyzedGroup& group);

// Single ops: time against size, one table for each op, task, precision and cache.

// In the order of the cells; empty where no cell is a single op.
std::vector<Table> op_tables(const Analysis& all);

// What was measured beside what others published.

// Shrunk by --quick: nothing in it is a measurement.
bool is_quick(const Report& report);

// One row for each published entry; none for a quick run, and a note where the command line changed what the
// config says; without rows when nothing was published. A published ratio stands beside the ratio of the same
// two cells, whose direction is that of the metric: of times, of rates, of accuracies.
Table published_table(const Analysis& all);

}  // namespace assay
