#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/report/axes.hpp"

namespace assay {
namespace {

std::string_view applies_word(AppliesTo applies) {
  switch (applies) {
    case AppliesTo::every:
      return "every cell";
    case AppliesTo::network:
      return "networks";
    case AppliesTo::op:
      break;
  }
  return "single ops";
}

std::string values_of(const Axis& axis) {
  const Option& option = axis.option;
  if (!option.choices.empty()) return fmt::format("`{}`", fmt::join(option.choices, "`, `"));
  if (option.type == OptionType::integer || option.type == OptionType::number)
    return fmt::format("{:.15g} to {:.15g}", option.min, option.max);
  return std::string(option.type == OptionType::flag ? "`true`, `false`" : "text");
}

// The spelling in a cell's id.
std::string spelling_of(const Axis& axis) {
  const std::string value = axis.option.placeholder.empty() ? "STEPS" : "X";
  const std::string text = fmt::format(fmt::runtime(axis.id), value, axis.name());
  return fmt::format("`{}`{}", text, axis.identity == Identity::if_set || axis.matters ? " if set" : "");
}

}  // namespace

std::string axis_reference() {
  std::string page =
      "# Axes\n\n"
      "<!-- Made from the table in harness/report/axis_table.cpp by\n"
      "`ASSAY_WRITE_DOCS=1 build/dev/report_test --gtest_filter='AxisReference.*'`. -->\n\n"
      "These values identify a cell.\n"
      "Each axis except `measure` is the option `--NAME` of `assay run`, `check` and `ab`, and the key NAME of a\n"
      "config; each of several values, with commas or as a JSON list, makes its own cells.\n\n"
      "- **applies to**: cells of another kind reject the axis.\n"
      "- **in the id**: its spelling in the cell's id. \"If set\": only if the value has an effect and is not the\n"
      "  default or the workload's own value, so that ids stay readable.\n"
      "- **report**: the field of a cell in the report, and the CSV column.\n\n"
      "| axis | values | default | applies to | in the id | report | |\n"
      "|---|---|---|---|---|---|---|\n";
  for (const Axis& axis : axis_table()) {
    const Option& option = axis.option;
    page += fmt::format("| `{}` | {} | {} | {} | {} | `{}` | {} |\n", axis.name(), values_of(axis),
                        option.default_value.empty() ? "" : fmt::format("`{}`", option.default_value),
                        applies_word(axis.applies), spelling_of(axis),
                        axis.has_field() ? axis.key() : fmt::format("variant.{}", axis.name()), option.help);
  }
  std::string compared;
  for (const Axis& axis : axis_table())
    if (axis.compared) compared += fmt::format("{}`{}`", compared.empty() ? "" : ", ", axis.name());
  return page + "\nIn each round, the forks of cells that differ only in " + compared +
         " run next to each other.\n";
}

}  // namespace assay
