#include "harness/conductor/print/entries.hpp"

#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace assay {
namespace {

constexpr std::size_t most_warnings = 4;  // of a cell

}  // namespace

std::string mode_text(const CellReport& cell) {
  return cell.axes.layout == "native" ? cell.axes.mode : cell.axes.mode + " " + cell.axes.layout;
}

Entry metric_entry(const CellReport& cell, std::string_view name) {
  const auto found = cell.metrics.find(name);
  if (found == cell.metrics.end()) return {"-", Tone::quiet};
  return {format_metric(found->second), found->second.value ? Tone::plain : Tone::quiet};
}

Entry without_interval(Entry entry) {
  entry.text = entry.text.substr(0, entry.text.find(" ["));
  return entry;
}

Entry metric_entry(const CellReport& cell, const MetricRow& metric) {
  const bool wide = metric.section == Section::times || metric.section == Section::memory_plans;
  const Entry entry = metric_entry(cell, metric.name);
  return wide ? entry : without_interval(entry);
}

Entry status_entry(const CellReport& cell) {
  if (cell.status != Status::ok) {
    const bool absent = cell.status == Status::unavailable || cell.status == Status::unsupported;
    return {std::string(to_string(cell.status)), absent ? Tone::quiet : Tone::bad};
  }
  if (!cell.flags.empty()) return {fmt::format("{}", fmt::join(cell.flags, ", ")), Tone::doubtful};
  return {"ok", Tone::good};
}

Entry equivalence_entry(const CellReport& cell) {
  const Equivalence& equivalence = cell.equivalence;
  if (!equivalence.checked)
    return cell.status == Status::ok ? Entry{"unchecked", Tone::doubtful} : Entry{"-", Tone::quiet};
  if (!equivalence.passed) return {"wrong", Tone::bad};
  return {fmt::format("{:.0f} % of bound", 100 * equivalence.worst), Tone::good};
}

std::string ratio_text(const PairedRatio& ratio) {
  std::string text = format_value(ratio.value, Hint::ratio, "1");
  if (ratio.lower && ratio.upper)
    text += fmt::format(" [{}, {}]", format_significant(*ratio.lower), format_significant(*ratio.upper));
  return text;
}

void add_warning_notes(Table& table, const Analysis& all, const AnalyzedGroup& group) {
  for (const std::size_t i : group.cells) {
    const CellReport& cell = all.report_cell(i);
    std::map<std::string, int> forks;
    for (const Fork& fork : cell.forks)
      for (const std::string& warning : fork.warnings) ++forks[warning];
    std::size_t left = most_warnings;
    for (const auto& [warning, count] : forks) {
      if (left-- == 0) {
        table.notes.push_back(
            fmt::format("{}: warnings like these of further forks stand in the report.", short_name(cell)));
        break;
      }
      table.notes.push_back(fmt::format("{}: warning ({} of {} forks): {}.", short_name(cell), count,
                                        cell.forks.size(), one_line(warning, 300)));
    }
  }
}

void add_status_notes(Table& table, const Analysis& all, const AnalyzedGroup& group) {
  for (const std::size_t i : group.cells) {
    const CellReport& cell = all.report_cell(i);
    if (cell.status != Status::ok) {
      std::string note =
          fmt::format("{}: {}: {}", short_name(cell), to_string(cell.status), one_line(cell.reason, 300));
      // What is not there is got by what its reason says; what went wrong is looked at by doing it again.
      const bool absent = cell.status == Status::unavailable || cell.status == Status::unsupported;
      if (!absent && !cell.reproduce.empty()) note += "; again: " + cell.reproduce;
      table.notes.push_back(note);
    } else if (!cell.flags.empty()) {
      table.notes.push_back(
          fmt::format("{} is not ranked: {}.", short_name(cell), fmt::join(cell.flags, ", ")));
    } else if (!all.cells[i].clean) {
      table.notes.push_back(fmt::format("{} is not ranked: it was not checked against the oracle{}{}",
                                        short_name(cell), cell.equivalence.reason.empty() ? "." : ": ",
                                        one_line(cell.equivalence.reason, 200)));
    }
    if (cell.status == Status::ok && cell.axes.loader == LoaderKind::native)
      table.notes.push_back(
          fmt::format("{} was fed by its framework's own loader, in an order of its own: not bit-equal to "
                      "cells of other loaders.",
                      short_name(cell)));
  }
}

}  // namespace assay
