#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/conductor/config/options.hpp"
#include "harness/conductor/docs/blocks.hpp"

namespace assay {
namespace {

std::string values_of(const Option& option) {
  if (!option.choices.empty()) return fmt::format("`{}`", fmt::join(option.choices, "`, `"));
  if (option.type == OptionType::integer || option.type == OptionType::number)
    return fmt::format("{:.15g} to {:.15g}", option.min, option.max);
  return option.type == OptionType::flag ? "`true`, `false`" : fmt::format("`{}`", option.placeholder);
}

}  // namespace

std::string setting_table() {
  std::string text = "| setting | values | default | holds for | what it is |\n|---|---|---|---|---|\n";
  for (const Option& option : options()) {
    if (option.scope == OptionScope::axis) continue;
    text += fmt::format("| `{}` | {} | {} | {} | {} |\n", option.name, values_of(option),
                        option.default_value.empty() ? "" : fmt::format("`{}`", option.default_value),
                        option.scope == OptionScope::run ? "the run" : "a cell", option.help);
  }
  return text;
}

}  // namespace assay
