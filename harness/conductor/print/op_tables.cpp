#include "harness/conductor/print/op_tables.hpp"

#include <algorithm>

#include "harness/conductor/print/entries.hpp"
#include "harness/report/comparison.hpp"

namespace assay {
namespace {

Entry without_interval(Entry entry) {
  entry.text = entry.text.substr(0, entry.text.find(" ["));
  return entry;
}

Table empty_table(const std::string& title) {
  return {.title = title,
          .columns = {{"size"},
                      {"backend"},
                      {"mode"},
                      {"time", Align::right},
                      {"traffic", Align::right},
                      {"arithmetic", Align::right},
                      {"of roofline", Align::right},
                      {"ratio", Align::right},
                      {"equivalence"},
                      {"status"}},
          .rows = {},
          .notes = {}};
}

// The cells of one size; ratios are to the fastest bare library, else to the fastest.
void add_size(Table& table, const Report& report, const ComparisonGroup& group) {
  const auto base = baseline(report, group);
  for (const std::size_t i : group.cells) {
    const CellReport& cell = report.cells[i];
    const auto ratio = base && *base != i ? time_ratio(cell, report.cells[*base]) : std::nullopt;
    const bool first = i == group.cells.front();
    table.rows.push_back(
        {{first ? cell.axes.size : ""},
         {cell.axes.backend},
         {cell.axes.layout == "native" ? cell.axes.mode : cell.axes.mode + " " + cell.axes.layout},
         metric_entry(cell, "step_time"),
         without_interval(metric_entry(cell, "bytes_per_second")),
         without_interval(metric_entry(cell, "flops_per_second")),
         without_interval(metric_entry(cell, "roofline_share")),
         {ratio       ? ratio_text(*ratio)
          : base == i ? "1"
                      : "-"},
         equivalence_entry(cell),
         status_entry(cell)});
  }
  // One reason for many sizes is said once.
  Table notes;
  add_status_notes(notes, report, group);
  add_warning_notes(notes, report, group);
  for (std::string& note : notes.notes) {
    if (std::find(table.notes.begin(), table.notes.end(), note) == table.notes.end())
      table.notes.push_back(std::move(note));
  }
}

}  // namespace

std::vector<Table> op_tables(const Report& report) {
  std::vector<Table> tables;
  for (const ComparisonGroup& group : comparison_groups(report)) {
    const Axes& axes = report.cells[group.cells.front()].axes;
    if (!axes.is_op()) continue;
    const std::string title = family_title(axes);
    auto table =
        std::find_if(tables.begin(), tables.end(), [&](const Table& one) { return one.title == title; });
    if (table == tables.end()) table = tables.insert(tables.end(), empty_table(title));
    add_size(*table, report, group);
  }
  for (Table& table : tables) table = without_empty_columns(std::move(table));
  return tables;
}

}  // namespace assay
