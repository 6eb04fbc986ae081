#include "harness/conductor/cli/table_options.hpp"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "harness/core/text.hpp"

namespace assay::cli {
namespace {

constexpr std::size_t help_width = 72;

const char* group_of(OptionScope scope) {
  switch (scope) {
    case OptionScope::axis:
      return "Axes (lists with commas; each combination is a cell)";
    case OptionScope::cell:
      return "How a cell is measured";
    case OptionScope::run:
      break;
  }
  return "Whole run";
}

}  // namespace

void TableOptions::add(CLI::App& command, const Option& row) {
  const std::string name = "--" + std::string(row.name);
  std::string help(row.help);
  if (row.type == OptionType::flag)
    help += row.default_value == "true" ? fmt::format(" [yes; {}=false: no]", name) : " [no]";
  else if (!row.default_value.empty())
    help += fmt::format(" [{}]", row.default_value);
  // A flag takes a value only as --name=value; otherwise it would take the config after it as its value.
  const std::string text = help_lines(help);  // const: otherwise CLI11 would bind the flag to it
  CLI::Option* option = row.type == OptionType::flag ? command.add_flag(name, text)
                                                     : command.add_option(name, CLI::callback_t(), text);
  if (row.type != OptionType::flag) option->type_name(std::string(row.placeholder));
  if (row.repeatable) option->take_all()->allow_extra_args(false);
  option->group(group_of(row.scope));
  options_.emplace_back(&row, option);
}

void TableOptions::add_all(CLI::App& command) {
  for (const Option& row : options()) add(command, row);
}

void TableOptions::add(CLI::App& command, std::string_view name) {
  add(command, require_option(name, "command line"));
}

OptionValues TableOptions::values() const {
  OptionValues values;
  for (const auto& [row, option] : options_)
    for (const std::string& text : option->results()) set_option(values, *row, text, "command line");
  return values;
}

std::string help_lines(std::string_view text) { return wrapped(text, help_width); }

}  // namespace assay::cli
