// Completes a command line of this program in bash. The candidates come from the options of the parser,
// the option table, and the backends and configs that are present; the script only asks for them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "harness/conductor/cli/commands/commands.hpp"

namespace CLI {
class App;
}

namespace assay::cli {

// The first argument of a request from a script: `assay __complete WORD...`.
inline constexpr std::string_view completion_request = "__complete";

// Returns the completions of the last of `words`. `words` is the command line after the program's name, up to
// the cursor; the last is empty if a new word begins. Without candidates the shell completes file names.
std::vector<std::string> candidates(const CLI::App& app, const Choices& choices,
                                    std::vector<std::string> words);

// The script for bash; it asks this program for candidates.
std::string_view bash_completion();

}  // namespace assay::cli
