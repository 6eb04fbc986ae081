// What a shell completes a command line of this program with. The candidates come from the options as the parser has
// them, from the option table and from what is here (backends, configs): a script of a shell only asks for them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "harness/conductor/cli/commands/commands.hpp"

namespace CLI {
class App;
}

namespace assay::cli {

// The first argument when a script asks: `assay __complete WORD...`.
inline constexpr std::string_view completion_request = "__complete";

struct Candidate {
  std::string text;
  std::string description = {};  // one line; may be empty
};

// What the last of `words` can become. `words` is the command line after the program's name, up to the cursor; the last
// is empty where a new word begins. No candidates: the shell completes file names.
std::vector<Candidate> candidates(const CLI::App& app, const Choices& choices,
                                  std::vector<std::string> words);
// A line for each: the text, a tab, the description.
std::string candidate_lines(const std::vector<Candidate>& found);

// bash, zsh and fish.
const std::vector<std::string>& completion_shells();
// The script that makes the shell ask this program. Precondition: it is one of completion_shells().
std::string_view completion_script(std::string_view shell);

}  // namespace assay::cli
