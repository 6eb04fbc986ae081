#include "harness/conductor/print/printers.hpp"

#include <algorithm>
#include <functional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/report/report_json.hpp"

namespace assay {
namespace {

constexpr std::string_view columns_after_axes =
    "variant,kind,backend_version,status,reason,flags,checked,passed,worst,metric,value,unit,lower,upper,confidence,n,"
    "hint,null_reason\n";

// Calls visit(key, text) for each axis that has a column; those of single ops come last.
void each_column(const Axes& axes, const std::function<void(const std::string&, const std::string&)>& visit) {
  for (const bool ops : {false, true})
    for (const Axis& axis : axis_table())
      if (axis.has_field() && (axis.applies == AppliesTo::op) == ops)
        visit(axis.key(), axis_text(axis, axes));
}

std::string header() {
  std::string line = "report,id";
  each_column({}, [&](const std::string& key, const std::string&) { line += "," + key; });
  return fmt::format("{},{}", line, columns_after_axes);
}

std::string number(const std::optional<double>& value) { return value ? fmt::format("{}", *value) : ""; }

std::string cell_fields(std::size_t index, const CellReport& cell) {
  const auto& f = csv_field;
  std::string variant;
  for (const auto& [option, value] : cell.axes.variant)
    variant += (variant.empty() ? "" : " ") + option + "=" + value;
  std::string out = fmt::format("{},{}", index, f(cell.id));
  each_column(cell.axes, [&](const std::string&, const std::string& text) { out += "," + f(text); });
  out += fmt::format(",{},{},{},{},{},{},{},{},{}", f(variant), to_string(cell.kind), f(cell.backend_version),
                     to_string(cell.status), f(cell.reason), f(fmt::format("{}", fmt::join(cell.flags, " "))),
                     cell.equivalence.checked, cell.equivalence.passed,
                     cell.equivalence.checked ? number(cell.equivalence.worst) : "");
  return out;
}

}  // namespace

std::string csv_field(std::string_view text) {
  std::string out(text);
  // Replaces control characters: a terminal or the log of a pipeline would execute them.
  const auto control = [](unsigned char c) { return c < ' ' || c == 0x7f; };
  std::replace_if(out.begin(), out.end(), control, ' ');
  if (!text.empty() && std::string_view("=+-@\t\r").find(text.front()) != std::string_view::npos)
    out.insert(0, 1, '\'');
  if (out.find_first_of(",\"") == out.npos) return out;
  std::string quoted = "\"";
  for (const char c : out) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

std::string csv(const std::vector<Report>& reports) {
  std::string out = header();
  for (std::size_t i = 0; i < reports.size(); ++i)
    for (const CellReport& cell : reports[i].cells) {
      const std::string fields = cell_fields(i, cell);
      if (cell.metrics.empty()) out += fields + ",,,,,,,,,\n";
      for (const auto& [name, metric] : cell.metrics)
        out += fmt::format("{},{},{},{},{},{},{},{},{},{}\n", fields, csv_field(name), number(metric.value),
                           csv_field(metric.unit), number(metric.lower), number(metric.upper),
                           number(metric.confidence), metric.n, to_string(metric.hint),
                           csv_field(metric.reason));
    }
  return out;
}

}  // namespace assay
