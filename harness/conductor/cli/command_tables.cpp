#include "harness/conductor/cli/command_tables.hpp"

#include <algorithm>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "harness/conductor/cli/commands/commands.hpp"
#include "harness/conductor/config/options.hpp"

namespace assay::cli {
namespace {

// In one cell of a table: help texts are wrapped, and a | would end the cell.
std::string cell_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '|') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out;
}

// "CONFIG", "-V, --version", "--out REPORT"
std::string markdown_term(const CLI::Option& option) {
  if (option.get_positional()) return option.get_name(true) + (takes_several(option) ? "..." : "");
  std::string names;
  for (const std::string& name : option.get_snames()) names += fmt::format("-{}, ", name);
  for (const std::string& name : option.get_lnames()) names += fmt::format("--{}, ", name);
  names.resize(names.size() - 2);
  if (option.get_items_expected_max() > 0) names += " " + option.get_type_name();
  return names;
}

bool is_row_of_table(const CLI::Option& option) {
  return !option.get_lnames().empty() && find_option(option.get_lnames().front());
}

bool is_listed(const CLI::Option& option) {
  return option.get_positional() || (!option.get_group().empty() && !option.check_lname("help"));
}

std::string call_of(const CLI::App& app, const CLI::App& command) {
  std::string call = fmt::format("{} {} [OPTIONS]", app.get_name(), command.get_name());
  for (const CLI::Option* option : command.get_options())
    if (option->get_positional())
      call += option->get_required() ? " " + markdown_term(*option)
                                     : fmt::format(" [{}]", markdown_term(*option));
  return call;
}

}  // namespace

std::string command_table(const CLI::App& app) {
  std::string table = "| command | what it does |\n|---|---|\n";
  for (const CLI::App* command : commands_of(app))
    table += fmt::format("| [`{0} {1}`](#{0}-{1}) | {2} |\n", app.get_name(), command->get_name(),
                         cell_text(command->get_description()));
  return table;
}

std::string option_tables(const CLI::App& app) {
  std::string text;
  for (const CLI::App* command : commands_of(app)) {
    std::vector<const CLI::Option*> listed =
        command->get_options([](const CLI::Option* option) { return is_listed(*option); });
    const auto rows =
        std::ranges::count_if(listed, [](const auto* option) { return is_row_of_table(*option); });
    const bool has_all = static_cast<std::size_t>(rows) == options().size();
    if (has_all) std::erase_if(listed, [](const auto* option) { return is_row_of_table(*option); });
    text += fmt::format("{}### {} {}\n\n`{}`\n\n{}.\n", text.empty() ? "" : "\n", app.get_name(),
                        command->get_name(), call_of(app, *command), cell_text(command->get_description()));
    if (has_all)
      text += "The [axes](axes.md) and the [settings](configs.md#the-settings) are options, too.\n";
    text += "\n";
    for (const std::string& call : examples_of(*command)) text += "    " + call + "\n";
    if (listed.empty()) continue;
    text += "\n| argument or option | what it is |\n|---|---|\n";
    for (const CLI::Option* option : listed)
      text += fmt::format("| `{}` | {} |\n", cell_text(markdown_term(*option)),
                          cell_text(option->get_description()));
  }
  return text;
}

}  // namespace assay::cli
