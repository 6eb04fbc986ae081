// Completes a command line of this program in a shell. The candidates come from the options of the parser,
// the option table, and the backends and configs that are present; the shell's script only asks for them.
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

struct Candidate {
  std::string text;
  std::string description = {};  // one line; may be empty
};

// Returns the completions of the last of `words`. `words` is the command line after the program's name, up to
// the cursor; the last is empty if a new word begins. Without candidates the shell completes file names.
std::vector<Candidate> candidates(const CLI::App& app, const Choices& choices,
                                  std::vector<std::string> words);
// One line per candidate: the text, a tab, the description.
std::string candidate_lines(const std::vector<Candidate>& found);

// bash, zsh and fish.
const std::vector<std::string>& completion_shells();
// The script of the shell; it asks this program for candidates. Precondition: `shell` is one of
// completion_shells().
std::string_view completion_script(std::string_view shell);

}  // namespace assay::cli
