// One function per command: it adds the subcommand and sets the action that runs it.
#pragma once

#include <functional>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
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

// In the order of the help.
std::vector<const CLI::App*> commands_of(const CLI::App& app);
// Whether the option takes a list.
bool takes_several(const CLI::Option& option);
// The option --filter. It refuses an empty text, which a script gives for a variable that is not set.
void add_filter(CLI::App& command, std::string& filter);
// Calls that the help and the reference show.
void add_examples(CLI::App& command, std::initializer_list<std::string_view> calls);
std::vector<std::string> examples_of(const CLI::App& command);

void add_list(CLI::App& app, Context& context);
void add_run(CLI::App& app, Context& context);
void add_check(CLI::App& app, Context& context);
void add_merge(CLI::App& app, Context& context);
void add_show(CLI::App& app, Context& context);
void add_compare(CLI::App& app, Context& context);
void add_ab(CLI::App& app, Context& context);
void add_calibrate(CLI::App& app, Context& context);
void add_validate(CLI::App& app, Context& context);
void add_import(CLI::App& app, Context& context);
void add_inspect(CLI::App& app, Context& context);
void add_env(CLI::App& app, Context& context);
void add_setup(CLI::App& app, Context& context);
void add_completion(CLI::App& app, Context& context);
void add_docs(CLI::App& app, Context& context);

}  // namespace assay::cli
