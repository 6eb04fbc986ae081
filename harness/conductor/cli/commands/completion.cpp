// assay completion: prints the script that completes the command line in bash.
#include "harness/conductor/cli/completion.hpp"

#include <memory>
#include <string>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "harness/conductor/cli/command_io.hpp"
#include "harness/conductor/cli/commands/commands.hpp"
#include "harness/conductor/cli/exit_code.hpp"

namespace assay::cli {
namespace {

int print_completion(const std::string& shell) {
  if (shell != "bash")
    throw UsageError(fmt::format("completion: no script for the shell '{}'; there is one for bash", shell));
  print(bash_completion());
  return fine;
}

}  // namespace

void add_completion(CLI::App& app, Context& context) {
  auto shell = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand(
      "completion", "Print the script that completes commands, options and values in bash");
  CLI::Option* option =
      command->add_option("SHELL", *shell, "bash: source <(assay completion bash)")->required();
  context.choices[option] = {"bash"};
  add_examples(*command, {"source <(assay completion bash)"});
  command->callback([shell, &context] { context.action = [shell] { return print_completion(*shell); }; });
}

}  // namespace assay::cli
