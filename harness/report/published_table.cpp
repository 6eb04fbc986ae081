#include "harness/report/published_table.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "harness/report/comparison.hpp"
#include "harness/report/summary.hpp"

namespace assay {
namespace {

const CellReport* find_cell(const Report& report, const std::string& id) {
  const auto found =
      std::find_if(report.cells.begin(), report.cells.end(), [&](const auto& cell) { return cell.id == id; });
  return found == report.cells.end() ? nullptr : &*found;
}

std::optional<double> metric_value(const CellReport& cell, const std::string& name) {
  const auto found = cell.metrics.find(name);
  return found == cell.metrics.end() ? std::nullopt : found->second.value;
}

// Paired within rounds where the metric is one of time; of the medians for the rest.
std::optional<double> measured_ratio(const CellReport& cell, const CellReport& other,
                                     const std::string& metric) {
  if (const auto paired = time_ratio(cell, other)) {
    if (metric == "step_time") return paired->value;
    if (metric == "samples_per_second") return 1 / paired->value;
  }
  const auto a = metric_value(cell, metric), b = metric_value(other, metric);
  return a && b && *b != 0 ? std::optional(*a / *b) : std::nullopt;
}

}  // namespace

Table published_table(const Report& report) {
  Table table{
      .title = "Measured beside published",
      .columns = {{"cell"}, {"metric"}, {"measured", Align::right}, {"published", Align::right}, {"source"}},
      .rows = {},
      .notes = {}};
  for (const CellReport& cell : report.cells)
    for (const Published& published : cell.published) {
      const auto metric = cell.metrics.find(published.metric);
      const Hint hint = metric == cell.metrics.end() ? Hint::number : metric->second.hint;
      const std::string name =
          fmt::format("{} {} {}", cell.axes.workload, short_name(cell), cell.axes.measure);
      std::string what = published.metric, measured = "-", said = one_line(published.statement, 120);
      if (published.to) {
        const CellReport* other = find_cell(report, *published.to);
        what += " / that of " + (other ? short_name(*other) : *published.to);
        if (const auto ratio = other ? measured_ratio(cell, *other, published.metric) : std::nullopt)
          measured = format_value(*ratio, Hint::ratio, "1");
        if (published.value) said = format_value(*published.value, Hint::ratio, "1");
      } else {
        if (metric != cell.metrics.end()) measured = format_metric(metric->second);
        if (published.value) said = format_value(*published.value, hint, published.unit);
      }
      table.rows.push_back({{name}, {what}, {measured}, {said}, {published.source}});
    }
  return table;
}

}  // namespace assay
