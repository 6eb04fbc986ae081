// What the tables of a report say about one cell, alike in all of them.
#pragma once

#include <string>
#include <string_view>

#include "harness/conductor/print/table.hpp"
#include "harness/report/analysis.hpp"
#include "harness/report/metric_table.hpp"
#include "harness/report/report.hpp"

namespace assay {

// "graph", with the layout where it is not the backend's own.
std::string mode_text(const CellReport& cell);
// A metric with its interval, "-" where it has no value.
Entry metric_entry(const CellReport& cell, std::string_view name);
Entry without_interval(Entry entry);
// With its interval where the table of its section is wide enough for that; `--format csv` has them all.
Entry metric_entry(const CellReport& cell, const MetricRow& metric);
// "ok", the quality flags, or what went wrong.
Entry status_entry(const CellReport& cell);
// How near to its bound the worst tensor is.
Entry equivalence_entry(const CellReport& cell);
// "1.9x [1.8, 2.0]" with the interval; below six rounds "1.9x (1.7 to 2.1)", the least and the greatest.
std::string ratio_text(const PairedRatio& ratio);
// One sentence or two: who is the fastest, how much longer the others take, and what makes it surer. Empty for a
// group in which nothing was timed.
std::string answer_of(const Analysis& all, const AnalyzedGroup& group);
// Why a row of the group is not ok, or not ranked.
void add_status_notes(Table& table, const Analysis& all, const AnalyzedGroup& group);
// What the forks of each row were warned of.
void add_warning_notes(Table& table, const Analysis& all, const AnalyzedGroup& group);

}  // namespace assay
