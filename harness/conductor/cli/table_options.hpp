// The rows of the option table (harness/conductor/config/options.hpp) as options of a command.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/conductor/config/options.hpp"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace assay::cli {

class TableOptions {
 public:
  // Adds every row, in the groups of the table, with its default in the help.
  void add_all(CLI::App& command);
  // Adds only the row of that name.
  void add(CLI::App& command, std::string_view name);
  // The given values, checked. Throws ConfigError. Call it after parsing.
  OptionValues values() const;

 private:
  void add(CLI::App& command, const Option& row);

  std::vector<std::pair<const Option*, const CLI::Option*>> options_;
};

// Breaks a help text into lines that fit next to the option's name.
std::string help_lines(std::string_view text);

}  // namespace assay::cli
