#include "harness/conductor/compare/comparison_tables.hpp"

#include <fmt/format.h>

namespace assay {
namespace {

Tone tone_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::faster:
      return Tone::good;
    case Verdict::slower:
    case Verdict::broken:
    case Verdict::missing:
      return Tone::bad;
    case Verdict::inconclusive:
    case Verdict::unmeasured:
      return Tone::doubtful;
    case Verdict::same:
      return Tone::quiet;
    case Verdict::added:
      return Tone::plain;
  }
  return Tone::plain;
}

std::string value(const std::optional<double>& number, const CellVerdict& cell) {
  return number ? format_value(*number, cell.hint, cell.unit) : "";
}

std::string interval(const CellVerdict& cell) {
  if (!cell.lower || !cell.upper) return "";
  return fmt::format("[{:.3f}, {:.3f}]", *cell.lower, *cell.upper);
}

std::vector<Entry> row_of(const CellVerdict& cell) {
  const std::string forks = cell.ratio ? fmt::format("{}/{}", cell.base_forks, cell.current_forks) : "";
  return {{std::string(to_string(cell.verdict)), tone_of(cell.verdict)},
          {cell.id},
          {cell.metric},
          {value(cell.base, cell)},
          {value(cell.current, cell)},
          {cell.ratio ? fmt::format("{:.3f}", *cell.ratio) : "", tone_of(cell.verdict)},
          {interval(cell)},
          {forks},
          {cell.reason}};
}

Table verdict_table(const Comparison& comparison, std::size_t most) {
  Table table;
  table.columns = {{"verdict"},
                   {"cell"},
                   {"metric"},
                   {"base", Align::right},
                   {"new", Align::right},
                   {"ratio", Align::right},
                   {"interval"},
                   {"forks", Align::right},
                   {"why"}};
  for (const CellVerdict& cell : comparison.cells) {
    if (most > 0 && table.rows.size() == most) {
      table.notes.push_back(fmt::format("{} more cells are not shown.", comparison.cells.size() - most));
      break;
    }
    table.rows.push_back(row_of(cell));
  }
  table.notes.push_back(summary_line(comparison) + ".");
  for (const std::string& note : comparison.notes) table.notes.push_back(note + ".");
  table.notes.push_back(
      "A ratio above 1 is slower. It is the Hodges-Lehmann estimate over forks; the interval is exact.");
  return without_empty_columns(std::move(table));
}

Table environment_table(const Comparison& comparison) {
  Table table;
  table.title = "What differs between the environments";
  table.columns = {{"what"}, {"base"}, {"new"}, {"so"}};
  for (const EnvironmentDifference& one : comparison.environment)
    table.rows.push_back(
        {{one.what},
         {one.base},
         {one.current},
         {one.hard ? "times are not comparable" : "a warning", one.hard ? Tone::bad : Tone::doubtful}});
  if (!comparison.comparable())
    table.notes.push_back("--allow-env compares all the same; `assay ab` measures both on one machine.");
  return table;
}

}  // namespace

std::vector<Table> comparison_tables(const Comparison& comparison, std::size_t most) {
  std::vector<Table> tables{verdict_table(comparison, most)};
  if (!comparison.environment.empty()) tables.push_back(environment_table(comparison));
  return tables;
}

}  // namespace assay
