#include <set>

#include <fmt/format.h>

#include "harness/conductor/print/entries.hpp"
#include "harness/conductor/print/report_tables.hpp"

namespace assay {

Table time_to_accuracy_table(const Analysis& all, double target) {
  Table table{.title = fmt::format("Time to an accuracy of {} %", format_significant(100 * target)),
              .columns = {{"cell"},
                          {"time", Align::right},
                          {"epochs", Align::right},
                          {"forks", Align::right},
                          {"split"}},
              .rows = {},
              .notes = {}};
  bool missed = false;
  for (const AnalyzedCell& cell : all.cells) {
    const auto found = time_to_accuracy(cell, target);
    if (!found) continue;
    const auto seconds = [](double value) { return format_value(value, Hint::duration, "s"); };
    std::string time = found->value ? seconds(*found->value) : "not reached";
    if (found->value && found->lower)
      time += fmt::format(" [{}, {}]", seconds(*found->lower),
                          found->upper ? seconds(*found->upper) : "not reached");
    missed = missed || found->reached < found->forks;
    table.rows.push_back({{cell.cell->id},
                          {time},
                          {found->epochs ? std::to_string(*found->epochs) : "-"},
                          {fmt::format("{} of {}", found->reached, found->forks)},
                          {std::string(to_string(found->split))}});
  }
  if (table.rows.empty()) return table;
  table.notes.emplace_back(
      "Median over forks of the seconds of training, compilation included and evaluations left out, until the end of "
      "the first epoch with that accuracy.");
  if (missed)
    table.notes.emplace_back(
        "A fork that did not reach it counts as longer than any: train for more epochs.");
  return table;
}

}  // namespace assay
