#include "harness/conductor/print/report_tables.hpp"

#include <fmt/format.h>

#include "harness/conductor/print/entries.hpp"

namespace assay {
namespace {

std::string seconds_text(const std::optional<PairedRatio>& seconds) {
  if (!seconds) return "-";
  return format_metric({.value = seconds->value,
                        .unit = "s",
                        .lower = seconds->lower,
                        .upper = seconds->upper,
                        .hint = Hint::duration});
}

}  // namespace

Table growth_table(const AnalyzedFamily& family) {
  const std::string unit = family.is_op ? "element" : "sample";
  Table table{.title = fmt::format("{}: growth with the {}", family.title, family.is_op ? "size" : "batch"),
              .columns = {{"backend, mode"},
                          {"sizes", Align::right},
                          {"from", Align::right},
                          {"to", Align::right},
                          {"at size 0", Align::right},
                          {"each further " + unit, Align::right},
                          {"at each doubling", Align::right},
                          {"line is off by", Align::right}},
              .rows = {},
              .notes = {}};
  for (const SeriesGrowth& growth : family.growth)
    table.rows.push_back({{growth.series},
                          {std::to_string(growth.sizes)},
                          {format_significant(growth.smallest, 6)},
                          {format_significant(growth.largest, 6)},
                          {seconds_text(growth.fixed)},
                          {seconds_text(growth.each)},
                          {ratio_text(growth.doubling)},
                          {fmt::format("up to {:.0f} %", 100 * growth.misfit)}});
  if (!table.rows.empty())
    table.notes.emplace_back(
        "The first two times are of a straight line through all sizes. They are left out where it is off by more than "
        "20 %: there the time is no straight line of the size, and only the factor at each doubling compares.");
  return table;
}

}  // namespace assay
