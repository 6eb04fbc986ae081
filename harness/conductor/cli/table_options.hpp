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
  // Adds every row, grouped as the table groups them, with its default in the help.
  void add_all(CLI::App& command);
  // Adds the row of that name alone.
  void add(CLI::App& command, std::string_view name);
  // What was given, checked. Throws ConfigError. After parsing.
  OptionValues values() const;

 private:
  void add(CLI::App& command, const Option& row);

  std::vector<std::pair<const Option*, const CLI::Option*>> options_;
};

// Breaks a help text into lines that fit beside the option's name.
std::string help_lines(std::string_view text);

}  // namespace assay::cli
