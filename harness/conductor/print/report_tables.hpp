// The tables of a report. printers.hpp prints them.
#pragma once

#include <vector>

#include "harness/conductor/print/table.hpp"
#include "harness/report/analysis.hpp"
#include "harness/report/report.hpp"

namespace assay {

// The tables of a report: for each comparison group the times, the learning and the resources; then the
// published results.

// Only clean rows are ranked and have ratios. The others follow with their status, and the reason is under
// the table.
std::vector<Table> summary(const Report& report);
// The tensors, worst first, for `assay check`.
Table equivalence_table(const CellReport& cell);

// The curve of the training loss by epoch.

// One row for each cell of the group that evaluated five or more epochs: the training loss, median over the
// forks that count, at up to ten epochs, including the first and the last. Without rows if the group has no
// such cell.
Table loss_curves(const Analysis& all, const AnalyzedGroup& group);

// Single ops: time against size, one table for each op, task, precision and cache.

// In the order of the cells; empty if no cell is a single op.
std::vector<Table> op_tables(const Analysis& all);

// One row for each series of a family: how its time grows with the batch, or with the size of an op. Without rows if no
// series was timed at three sizes.
Table growth_table(const AnalyzedFamily& family);

// One row for each cell that was evaluated after its epochs: the time until it reaches the accuracy, which is in (0, 1].
// Without rows if there is none.
Table time_to_accuracy_table(const Analysis& all, double target);

// Ranks: one row for each cell with several ranks and a cell of one rank in the same report. Without rows if there is
// none.
Table scaling_table(const Analysis& all);
// The machines of the cells whose ranks were on several. Without rows: there are none.
Table hosts_table(const Analysis& all);

// A report of several machines.

// Sentences for the end of `assay merge`: how many shards were joined and on which machines, how many cells are
// ok, and what is missing.
std::vector<std::string> merge_notes(const Report& report);
// "Measured in environment 2 of 4: node7, 64 logical CPUs of …" for a group of a merged report; empty for other
// reports, and for a group that has not run.
std::string environment_note(const Analysis& all, const AnalyzedGroup& group);

// Measured results next to published ones.

// Whether the run was made with --quick: its numbers are not measurements.
bool is_quick(const Report& report);

// One row for each published entry; without rows for a quick run or if nothing was published. A note lists
// the options that the command line changed in the config. A published ratio is next to the ratio of the same
// two cells; its direction is that of the metric: of times, of rates, of accuracies.
Table published_table(const Analysis& all);

}  // namespace assay
