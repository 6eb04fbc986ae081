// One function a command: it describes its subcommand and says what choosing it does.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace assay::cli {

struct Context {
  std::vector<std::string> command_line;  // as the program was called, for the report
  std::function<int()> action;            // what the chosen command does; returns the exit code
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

}  // namespace assay::cli
