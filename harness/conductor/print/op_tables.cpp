#include "harness/conductor/print/report_tables.hpp"

#include <algorithm>

#include "harness/conductor/print/entries.hpp"
#include "harness/report/metric_table.hpp"

namespace assay {
namespace {

Table empty_table(const std::string& title) {
  Table table{.title = title, .columns = {{"size"}, {"backend"}, {"mode"}}, .rows = {}, .notes = {}};
  for (const MetricRow& metric : metric_table())
    if (!metric.op_heading.empty()) table.columns.push_back({std::string(metric.op_heading), Align::right});
  table.columns.insert(table.columns.end(), {{"ratio", Align::right}, {"equivalence"}, {"status"}});
  return table;
}

std::string ratio_to_base(const AnalyzedCell& cell, bool is_base) {
  if (is_base) return "1";
  return cell.ratio ? ratio_text(*cell.ratio) : "-";
}

// The cells of one size; ratios are relative to the fastest bare library, or to the fastest cell without one.
void add_size(Table& table, const Analysis& all, const AnalyzedGroup& group) {
  for (const std::size_t i : group.cells) {
    const CellReport& cell = all.report_cell(i);
    std::vector<Entry> row{
        {i == group.cells.front() ? cell.axes.size : ""}, {cell.axes.backend}, {mode_words(cell.axes)}};
    for (const MetricRow& metric : metric_table())
      if (!metric.op_heading.empty()) row.push_back(metric_entry(cell, metric));
    row.push_back({ratio_to_base(all.cells[i], all.cells[i].base == i)});
    row.push_back(equivalence_entry(cell));
    row.push_back(status_entry(cell));
    table.rows.push_back(std::move(row));
  }
  // Prints a reason that many sizes share only once.
  Table notes;
  add_status_notes(notes, all, group);
  add_warning_notes(notes, all, group);
  if (std::string machine = environment_note(all, group); !machine.empty())
    notes.notes.push_back(std::move(machine));
  for (std::string& note : notes.notes) {
    if (std::find(table.notes.begin(), table.notes.end(), note) == table.notes.end())
      table.notes.push_back(std::move(note));
  }
}

}  // namespace

std::vector<Table> op_tables(const Analysis& all) {
  std::vector<Table> tables;
  for (const AnalyzedFamily& family : all.families) {
    if (!family.is_op) continue;
    Table table = empty_table(family.title);
    for (const std::size_t group : family.groups) add_size(table, all, all.groups[group]);
    tables.push_back(without_empty_columns(std::move(table)));
    if (Table growth = growth_table(family); !growth.rows.empty()) tables.push_back(std::move(growth));
  }
  return tables;
}

}  // namespace assay
