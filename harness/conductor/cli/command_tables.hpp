// The commands and their options as Markdown, for docs/reference/command-line.md, made from the options as the parser
// has them.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace assay::cli {

// A table of the commands.
std::string command_table(const CLI::App& app);
// For each command a heading, how it is called, and a table of its arguments and options. A command that takes every
// axis and setting refers to their pages.
std::string option_tables(const CLI::App& app);

}  // namespace assay::cli
