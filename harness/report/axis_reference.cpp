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
  std::string table =
      "| axis | values | default | applies to | in the id | report | what it is |\n"
      "|---|---|---|---|---|---|---|\n";
  for (const Axis& axis : axis_table()) {
    const Option& option = axis.option;
    table += fmt::format("| `{}` | {} | {} | {} | {} | `{}` | {} |\n", axis.name(), values_of(axis),
                         option.default_value.empty() ? "" : fmt::format("`{}`", option.default_value),
                         applies_word(axis.applies), spelling_of(axis),
                         axis.has_field() ? axis.key() : fmt::format("variant.{}", axis.name()), option.help);
  }
  std::string compared;
  for (const Axis& axis : axis_table())
    if (axis.compared) compared += fmt::format("{}`{}`", compared.empty() ? "" : ", ", axis.name());
  return table +
         "\nIn each round, the forks of cells that differ only in these axes run next to each other:\n" +
         compared + ".\n";
}

}  // namespace assay
