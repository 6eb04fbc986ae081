// The entries and notes about one cell that all tables of a report share.
#pragma once

#include <string>
#include <string_view>

#include "harness/conductor/print/table.hpp"
#include "harness/report/analysis.hpp"
#include "harness/report/metric_table.hpp"
#include "harness/report/report.hpp"

namespace assay {

// A metric with its interval; "-" if it has no value.
Entry metric_entry(const CellReport& cell, std::string_view name);
Entry without_interval(Entry entry);
// With its interval if the table of its section is wide enough; `--format csv` has all intervals.
Entry metric_entry(const CellReport& cell, const MetricRow& metric);
// "ok", the quality flags, or the failure.
Entry status_entry(const CellReport& cell);
// The error of the worst tensor relative to its bound.
Entry equivalence_entry(const CellReport& cell);
// "1.9x [1.8, 2.0]" with the interval; for fewer than six rounds "1.9x (1.7 to 2.1)", the minimum and the
// maximum.
std::string ratio_text(const PairedRatio& ratio);
// Some sentences: the fastest backend, how much longer the others take, and how to make the answer more certain; the
// provisional order, if the group has one. Empty for a group in which nothing was timed.
std::string answer_of(const Analysis& all, const AnalyzedGroup& group);
// Why a row of the group is not ok, or not ranked.
void add_status_notes(Table& table, const Analysis& all, const AnalyzedGroup& group);
// The warnings of the forks of each row.
void add_warning_notes(Table& table, const Analysis& all, const AnalyzedGroup& group);

}  // namespace assay
