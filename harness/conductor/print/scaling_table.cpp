#include <string>
#include <vector>

#include <fmt/format.h>

#include "harness/conductor/print/entries.hpp"
#include "harness/conductor/print/report_tables.hpp"
#include "harness/report/metric_table.hpp"

namespace assay {
namespace {

std::string percent_text(const PairedRatio& ratio) {
  const auto percent = [](double value) { return fmt::format("{:.0f}", 100 * value); };
  std::string text = percent(ratio.value) + " %";
  if (ratio.lower && ratio.upper)
    text += fmt::format(" [{}, {}]", percent(*ratio.lower), percent(*ratio.upper));
  return text;
}

}  // namespace

Table scaling_table(const Analysis& all) {
  Table table{
      .title = "Scaling over ranks: samples per second, over those of one rank times the number of ranks",
      .columns = {{"one rank"},
                  {"backend"},
                  {"mode"},
                  {"ranks", Align::right},
                  {"batch", Align::right},
                  {"step", Align::right},
                  {"samples/s", Align::right},
                  {"scaling"},
                  {"efficiency", Align::right}},
      .rows = {},
      .notes = {}};
  for (const AnalyzedScaling& scaling : all.scaling) {
    const CellReport& cell = all.report_cell(scaling.cell);
    table.rows.push_back({{group_title(all.report_cell(scaling.base).axes)},
                          {cell.axes.backend},
                          {mode_words(cell.axes)},
                          {std::to_string(cell.axes.ranks())},
                          {std::to_string(cell.axes.batch)},
                          without_interval(metric_entry(cell, *find_metric("step_time"))),
                          without_interval(metric_entry(cell, *find_metric("samples_per_second"))),
                          {std::string(to_string(scaling.kind))},
                          {percent_text(scaling.efficiency)}});
  }
  return table;
}

}  // namespace assay
