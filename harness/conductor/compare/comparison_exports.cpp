#include "harness/conductor/compare/comparison_exports.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "harness/conductor/print/printers.hpp"
#include "harness/core/json/encode.hpp"
#include "harness/core/text.hpp"

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
  const std::string forks =
      cell.base_forks > 0 ? fmt::format("{}/{}", cell.base_forks, cell.current_forks) : "";
  return {{std::string(to_string(cell.verdict)), tone_of(cell.verdict)},
          {cell.id},
          {cell.metric},
          {value(cell.base, cell)},
          {value(cell.current, cell)},
          {cell.ratio ? fmt::format("{:.3f}", *cell.ratio) : "", tone_of(cell.verdict)},
          {interval(cell)},
          {forks},
          {cell.detectable ? fmt::format("{:.2g} %", 100 * *cell.detectable) : ""},
          {cell.reason}};
}

// "All 12 cells are 2.1 % slower together [-0.4, +4.7]: …"
std::string shift_text(const Comparison& comparison) {
  const SharedShift& shift = *comparison.shift;
  std::string text = fmt::format("All {} cells are {:.1f} % {} together [{:+.1f}, {:+.1f}]", shift.cells,
                                 100 * std::abs(shift.ratio - 1), shift.ratio < 1 ? "faster" : "slower",
                                 100 * (shift.lower - 1), 100 * (shift.upper - 1));
  if (shift.loop)
    text += fmt::format(", and a fixed loop on the processor is {:.1f} % {}", 100 * std::abs(*shift.loop - 1),
                        *shift.loop < 1 ? "faster" : "slower");
  if (comparison.shifted())
    text +=
        ": the machine, or something that all of them use; `assay ab` shows which, and --allow shift accepts it";
  return text;
}

Table verdict_table(const Comparison& comparison, std::size_t max_shown) {
  Table table;
  table.columns = {{"verdict"},
                   {"cell"},
                   {"metric"},
                   {"base", Align::right},
                   {"new", Align::right},
                   {"ratio", Align::right},
                   {"interval"},
                   {"forks", Align::right},
                   {"finds", Align::right},
                   {"why"}};
  for (const CellVerdict& cell : comparison.cells) {
    if (max_shown > 0 && table.rows.size() == max_shown) {
      table.notes.push_back(
          fmt::format("Not shown: {}.", plural(comparison.cells.size() - max_shown, "more cell")));
      break;
    }
    table.rows.push_back(row_of(cell));
  }
  table.notes.push_back(summary_line(comparison) + ".");
  if (comparison.shift) table.notes.push_back(shift_text(comparison) + ".");
  for (const std::string& note : comparison.notes) table.notes.push_back(note + ".");
  table.notes.push_back(
      comparison.detect > 0
          ? fmt::format(
                "A ratio above 1 is slower{}. It is the Hodges-Lehmann estimate, which may differ from new / base. "
                "\"finds\": the smallest change that four of five such comparisons would find.",
                comparison.shift ? ", without the shift that all cells share" : "")
          : "A ratio above 1 is slower. It is the Hodges-Lehmann estimate over rounds, and the interval "
            "is exact.");
  return without_empty_columns(std::move(table));
}

Table environment_table(const Comparison& comparison) {
  Table table;
  table.title = "Differences between the environments";
  table.columns = {{"what"}, {"base"}, {"new"}, {"so"}};
  for (const EnvironmentDifference& one : comparison.environment)
    table.rows.push_back({{one.what},
                          {one.base},
                          {one.current},
                          {!one.hard                           ? "a warning"
                           : comparison.overlooked.covers(one) ? "overlooked"
                                                               : "times are not comparable",
                           comparison.overlooked.covers(one) ? Tone::doubtful : Tone::bad}});
  if (!comparison.comparable()) {
    std::set<std::string> words;
    for (const EnvironmentDifference& one : comparison.environment)
      if (!comparison.overlooked.covers(one)) words.insert(allowing(one));
    table.notes.push_back(fmt::format(
        "Renew the baseline, measure both on one machine with `assay ab`, or compare anyway with --allow {}.",
        fmt::join(words, ",")));
  }
  return table;
}

}  // namespace

std::vector<Table> comparison_tables(const Comparison& comparison, std::size_t max_shown) {
  std::vector<Table> tables{verdict_table(comparison, max_shown)};
  if (!comparison.environment.empty()) tables.push_back(environment_table(comparison));
  return tables;
}

namespace {

using Json = nlohmann::json;

constexpr std::size_t max_rows = 100;
constexpr std::size_t max_characters = 65'000;

Json to_json(const CellVerdict& cell) {
  return {{"id", cell.id},
          {"verdict", to_string(cell.verdict)},
          {"reason", cell.reason},
          {"metric", cell.metric},
          {"unit", cell.unit},
          {"base", {{"value", encode(cell.base)}, {"forks", cell.base_forks}}},
          {"new", {{"value", encode(cell.current)}, {"forks", cell.current_forks}}},
          {"ratio", encode(cell.ratio)},
          {"lower", encode(cell.lower)},
          {"upper", encode(cell.upper)},
          {"confidence", encode(cell.confidence)},
          {"baselines", cell.baselines},
          {"detectable", encode(cell.detectable)},
          {"forks_needed", encode(cell.forks_needed)},
          {"baselines_needed", encode(cell.baselines_needed)},
          {"looks", encode(cell.looks)}};
}

Json to_json(const SharedShift& shift) {
  return {{"ratio", shift.ratio},
          {"lower", shift.lower},
          {"upper", shift.upper},
          {"cells", shift.cells},
          {"loop", encode(shift.loop)}};
}

// XML 1.0 does not allow control characters, not even escaped.
std::string xml(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return out;
}

std::string sentence(const CellVerdict& cell) {
  std::string text(to_string(cell.verdict));
  if (cell.ratio) text += fmt::format(", {} is {:.3f} times the baseline's", cell.metric, *cell.ratio);
  if (cell.lower && cell.upper) text += fmt::format(" [{:.3f}, {:.3f}]", *cell.lower, *cell.upper);
  if (!cell.reason.empty()) text += ": " + one_line(cell.reason);
  return text;
}

// Escapes the characters with a meaning in a workflow command.
std::string command_text(std::string_view text, bool property) {
  std::string out;
  for (const char c : text) {
    if (c == '%')
      out += "%25";
    else if (c == '\r')
      out += "%0D";
    else if (c == '\n')
      out += "%0A";
    else if (property && c == ':')
      out += "%3A";
    else if (property && c == ',')
      out += "%2C";
    else  // a terminal that shows the log would execute other control characters
      out += static_cast<unsigned char>(c) < ' ' || c == 0x7f ? ' ' : c;
  }
  return out;
}

std::string annotation(const char* level, std::string_view title, std::string_view text) {
  return fmt::format("::{} title={}::{}\n", level, command_text(title, true), command_text(text, false));
}

const char* level_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::slower:
    case Verdict::broken:
    case Verdict::missing:
      return "error";
    case Verdict::inconclusive:
    case Verdict::unmeasured:
      return "warning";
    case Verdict::faster:
    case Verdict::added:
    case Verdict::same:
      return "notice";
  }
  return "notice";
}

}  // namespace

Json comparison_json(const Comparison& comparison, int exit_code) {
  Json cells = Json::array(), environment = Json::array(), counts = Json::object();
  for (const CellVerdict& cell : comparison.cells) {
    cells.push_back(to_json(cell));
    const std::string verdict(to_string(cell.verdict));
    counts[verdict] = counts.value(verdict, 0) + 1;
  }
  for (const EnvironmentDifference& one : comparison.environment)
    environment.push_back({{"what", one.what},
                           {"base", one.base},
                           {"new", one.current},
                           {"hard", one.hard},
                           {"allow", one.hard ? Json(allowing(one)) : Json(nullptr)}});
  return {{"schema", "assay-comparison/1"},
          {"threshold", comparison.threshold},
          {"confidence", comparison.confidence},
          {"cell_confidence", comparison.cell_confidence},
          {"detect", comparison.detect > 0 ? Json(comparison.detect) : Json(nullptr)},
          {"baselines", comparison.baselines},
          {"comparable", comparison.comparable()},
          {"shift", comparison.shift ? to_json(*comparison.shift) : Json(nullptr)},
          {"shifted", comparison.shifted()},
          {"environment", environment},
          {"counts", counts},
          {"notes", comparison.notes},
          {"cells", cells},
          {"exit_code", exit_code}};
}

std::string comparison_junit(const Comparison& comparison) {
  const int failures = comparison.count(Verdict::slower) + comparison.count(Verdict::broken);
  std::string out = fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\">\n",
      xml(comparison.title), comparison.cells.size(), failures, comparison.count(Verdict::missing),
      comparison.count(Verdict::inconclusive) + comparison.count(Verdict::unmeasured));
  for (const CellVerdict& cell : comparison.cells) {
    const std::string text = xml(sentence(cell));
    const std::string time =
        cell.unit == "s" && cell.current ? fmt::format(" time=\"{}\"", *cell.current) : "";
    out += fmt::format("  <testcase classname=\"assay\" name=\"{}\"{}>", xml(cell.id), time);
    if (cell.verdict == Verdict::slower || cell.verdict == Verdict::broken)
      out += fmt::format("<failure type=\"{}\" message=\"{}\"/>", to_string(cell.verdict), text);
    else if (cell.verdict == Verdict::missing)
      out += fmt::format("<error type=\"missing\" message=\"{}\"/>", text);
    else if (cell.verdict == Verdict::inconclusive || cell.verdict == Verdict::unmeasured)
      out += fmt::format("<skipped message=\"{}\"/>", text);
    out += "</testcase>\n";
  }
  return out + "</testsuite>\n";
}

std::string comparison_annotations(const Comparison& comparison) {
  std::string out;
  for (const EnvironmentDifference& one : comparison.environment)
    if (!comparison.overlooked.covers(one))
      out += annotation("error", "environments are not comparable",
                        fmt::format("{}: {} in the baseline, {} now", one.what, one.base, one.current));
  for (const CellVerdict& cell : comparison.cells)
    if (cell.verdict != Verdict::same) out += annotation(level_of(cell.verdict), cell.id, sentence(cell));
  if (comparison.shifted()) out += annotation("warning", comparison.title, shift_text(comparison));
  return out + annotation("notice", comparison.title, summary_line(comparison));
}

std::string comparison_markdown(const Comparison& comparison) {
  Comparison attention = comparison, rest = comparison;
  const auto calm = [](const CellVerdict& cell) { return cell.verdict == Verdict::same; };
  std::erase_if(attention.cells, calm);
  std::erase_if(rest.cells, std::not_fn(calm));
  const std::string head =
      fmt::format("<!-- {0} -->\n**{0}**: {1}\n\n", comparison.title, summary_line(comparison));
  // As many rows as fit, because ids may be long.
  for (std::size_t rows = max_rows;; rows /= 2) {
    std::string text = head;
    if (!attention.cells.empty() || !comparison.environment.empty())
      text += markdown(comparison_tables(attention, std::max<std::size_t>(rows, 1)));
    if (!rest.cells.empty() && rows > 0) {
      rest.environment.clear();
      text += fmt::format("\n<details><summary>{} the same</summary>\n\n{}\n</details>\n", rest.cells.size(),
                          markdown(comparison_tables(rest, rows)));
    }
    if (text.size() < max_characters || rows == 0) return text;
  }
}

}  // namespace assay
