#include "harness/conductor/print/report_tables.hpp"

#include <algorithm>
#include <functional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/conductor/print/entries.hpp"

namespace assay {
namespace {

// The shortest names that distinguish the cells of this table: "lenet5 torch eager cuda epochs:10".
class Names {
 public:
  explicit Names(const Report& report) {
    for (const CellReport& cell : report.cells) {
      if (cell.published.empty()) continue;
      const std::vector<std::string> words = title_words(cell.axes);
      if (first_.empty()) first_ = words;
      differ_.resize(words.size());
      for (std::size_t i = 0; i < words.size(); ++i) differ_[i] = differ_[i] || words[i] != first_[i];
    }
  }
  // With `next_to`: only the words that differ from the name of that cell.
  std::string of(const CellReport& cell, const CellReport* next_to = nullptr) const {
    const std::vector<std::string> words = title_words(cell.axes);
    const std::vector<std::string> others = next_to ? title_words(next_to->axes) : std::vector<std::string>();
    std::string name = next_to ? "" : cell.axes.workload + " ";
    name += short_name(cell);
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (i < differ_.size() && differ_[i] && !words[i].empty() && (!next_to || words[i] != others[i]))
        name += " " + words[i];
    }
    return name;
  }

 private:
  std::vector<std::string> first_;
  std::vector<bool> differ_;
};

std::string published_text(const Published& published, Hint hint) {
  std::string text;
  if (published.value) {
    text = published.to ? format_value(*published.value, Hint::ratio, "1")
                        : format_value(*published.value, hint, published.unit);
  }
  if (!published.statement.empty()) text += (text.empty() ? "" : "; ") + one_line(published.statement, 160);
  return text;
}

}  // namespace

bool is_quick(const Report& report) { return report.run.quick.value_or(false); }

Table published_table(const Analysis& all) {
  const Report& report = *all.reports.front();
  Table table{
      .title = "Measured and published",
      .columns = {{"cell"}, {"metric"}, {"measured", Align::right}, {"published", Align::right}, {"source"}},
      .rows = {},
      .notes = {}};
  // A quick run does not follow the protocol, so its numbers are not shown next to those of the study.
  if (is_quick(report)) return table;
  const Names names(report);
  bool doubtful = false;
  for (const AnalyzedCell& analyzed : all.cells) {
    const CellReport& cell = *analyzed.cell;
    for (const AnalyzedPublished& entry : analyzed.published) {
      const Published& published = *entry.published;
      const auto metric = cell.metrics.find(published.metric);
      const Hint hint = metric == cell.metrics.end() ? Hint::number : metric->second.hint;
      std::string what = published.metric, measured = "-";
      if (published.to) {
        what += entry.other ? " / that of " + names.of(all.report_cell(*entry.other), &cell)
                            : " / that of a cell that is not in this report";
        if (entry.measured) measured = ratio_text(*entry.measured);
      } else if (metric != cell.metrics.end()) {
        measured = format_metric(metric->second);
      }
      const bool counts = analyzed.clean && (!entry.other || all.cells.at(*entry.other).clean);
      if (!counts && measured != "-") {
        measured += " *";
        doubtful = true;
      }
      table.rows.push_back(
          {{names.of(cell)}, {what}, {measured}, {published_text(published, hint)}, {published.source}});
    }
  }
  const auto same_source = [&](const auto& row) { return row[4].text == table.rows[0][4].text; };
  if (table.rows.size() > 1 && std::all_of(table.rows.begin(), table.rows.end(), same_source)) {
    table.notes.push_back("Published by " + table.rows[0][4].text + ".");
    table.columns.pop_back();
    for (auto& row : table.rows) row.pop_back();
  }
  if (doubtful)
    table.notes.emplace_back("*: a cell of this row is not ranked: flagged, not checked, or wrong.");
  if (const auto& config = report.run.config; config.is_object() && config.contains("overridden")) {
    std::string options;
    for (const auto& option : config["overridden"])
      if (option.is_string()) options += (options.empty() ? "--" : ", --") + option.get<std::string>();
    table.notes.push_back("Not the protocol as published: the command line set " + options + ".");
  }
  return table;
}

}  // namespace assay
