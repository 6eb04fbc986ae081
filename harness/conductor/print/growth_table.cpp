#include "harness/conductor/print/report_tables.hpp"

#include <fmt/format.h>

#include "harness/conductor/print/entries.hpp"

namespace assay {
namespace {

std::string with_range(const PairedRatio& value, Hint hint, std::string_view unit) {
  std::string text = format_value(value.value, hint, unit);
  if (value.lower && value.upper)
    text += fmt::format(" [{}, {}]", format_value(*value.lower, hint, unit),
                        format_value(*value.upper, hint, unit));
  return text;
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
  for (const auto& [series, growth] : family.growth)
    table.rows.push_back({{series},
                          {std::to_string(growth.sizes)},
                          {format_significant(growth.smallest, 6)},
                          {format_significant(growth.largest, 6)},
                          {with_range(growth.fixed, Hint::duration, "s")},
                          {with_range(growth.each, Hint::duration, "s")},
                          {ratio_text(growth.doubling)},
                          {fmt::format("up to {:.0f} %", 100 * growth.misfit)}});
  if (!table.rows.empty())
    table.notes.emplace_back(
        "The first two times are of a straight line through all sizes; where it is far off, the time is no straight line "
        "of the size, and only the factor at each doubling compares.");
  return table;
}

}  // namespace assay
