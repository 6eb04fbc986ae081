// Prints tables and reports: for a terminal, as Markdown, CSV, JSON and in the format of google/benchmark.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/conductor/print/table.hpp"
#include "harness/report/analysis.hpp"
#include "harness/report/report.hpp"

namespace assay {

// Tables for a terminal or a log file.
struct ConsoleStyle {
  bool colour = false;
  bool utf8 = true;       // false: other characters are replaced by ASCII
  std::size_t width = 0;  // notes are wrapped to it; 0: not wrapped
};

// The capabilities of stream `descriptor` of this process: colors only on a terminal, and never with
// $NO_COLOR or TERM=dumb; UTF-8 by the locale of the environment; the terminal's width.
ConsoleStyle console_style(int descriptor);

std::string console(const Table& table, const ConsoleStyle& style);
std::string console(const std::vector<Table>& tables, const ConsoleStyle& style);
// One sentence in that style: wrapped, and in ASCII if needed.
std::string console_note(std::string_view text, const ConsoleStyle& style);

// Tables as GitHub-flavoured Markdown.

// Escapes text that Markdown or HTML would read as markup.
std::string markdown(const Table& table);
std::string markdown(const std::vector<Table>& tables);

// The metrics as tidy CSV (RFC 4180, LF line ends): one row per cell and metric.

// A cell without metrics also has one row, so that no cell is lost. Numbers have full precision; null is an
// empty field.
std::string csv(const std::vector<Report>& reports);

// A text field, quoted if needed. A field that a spreadsheet would run as a formula gets an apostrophe in
// front.
std::string csv_field(std::string_view text);

// The analysis of reports as JSON, for programs that draw or search it: docs/reference/analysis.md.
inline constexpr const char* analysis_schema = "assay-analysis/1";

// Strict JSON, with one line for each cell, group, family and answer. Numbers that are not finite are null. With an
// accuracy each cell also has `time_to_accuracy`.
std::string analysis_text(Analysis all, const std::vector<Question>& questions = {},
                          std::optional<double> accuracy = {});
// The text of results/schema/analysis-1.schema.json.
std::string analysis_schema_text();

// The report in the format of google/benchmark's JSON, for its compare.py and other programs that read that
// format.

// One repetition per fork, named by the cell's id, in nanoseconds per step, then mean, median, stddev and cv
// over the clean forks. Only clean forks are listed. A cell that is not ok is a benchmark with error_occurred
// and its reason.
std::string gbench_text(const Report& report);

}  // namespace assay
