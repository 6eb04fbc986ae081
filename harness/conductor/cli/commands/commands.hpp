// One function per command: it adds the subcommand and sets the action that runs it.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace assay::cli {

// The possible values of options that are not in the option table; used for completion.
using Choices = std::map<const CLI::Option*, std::vector<std::string>>;

struct Context {
  std::vector<std::string> command_line;  // the arguments of the program, for the report
  std::function<int()> action;            // runs the chosen command; returns the exit code
  Choices choices;
};

void add_list(CLI::App& app, Context& context);
void add_run(CLI::App& app, Context& context);
void add_check(CLI::App& app, Context& context);
void add_show(CLI::App& app, Context& context);
void add_compare(CLI::App& app, Context& context);
void add_ab(CLI::App& app, Context& context);
void add_calibrate(CLI::App& app, Context& context);
void add_validate(CLI::App& app, Context& context);
void add_inspect(CLI::App& app, Context& context);
void add_env(CLI::App& app, Context& context);
void add_completion(CLI::App& app, Context& context);
// Call it last: it writes the pages of the other commands.
void add_man(CLI::App& app, Context& context);

}  // namespace assay::cli
