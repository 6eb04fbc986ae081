#include <fmt/format.h>

#include "harness/report/metric_table.hpp"

namespace assay {
namespace {

std::string_view shown_in(const MetricRow& row) {
  switch (row.section) {
    case Section::times:
      return "next to the rank";
    case Section::others:
      return "below the ranking";
    case Section::memory_plans:
      return "memory plans";
    case Section::only_ops:
      break;
  }
  return "single ops only";
}

}  // namespace

std::string metric_reference() {
  std::string table = "| metric | unit | better | forks | shown | what it is |\n|---|---|---|---|---|---|\n";
  for (const MetricRow& row : metric_table())
    table += fmt::format("| `{}` | {} | {} | {} | {} | {} |\n", row.name, row.unit, to_string(row.better),
                         row.every_fork ? "all" : "undisturbed", shown_in(row), row.about);
  return table;
}

}  // namespace assay
