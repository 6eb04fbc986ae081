// assay man: the manual pages.
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "harness/conductor/cli/command_io.hpp"
#include "harness/conductor/cli/commands/commands.hpp"
#include "harness/conductor/cli/man_page.hpp"
#include "harness/conductor/run/run.hpp"
#include "harness/core/io/atomic_file.hpp"
#include "harness/core/text.hpp"

namespace assay::cli {
namespace {

struct ManOptions {
  std::string command, folder;
};

std::vector<std::string> names_of(const std::vector<const CLI::App*>& commands) {
  std::vector<std::string> names;
  for (const CLI::App* command : commands) names.push_back(command->get_name());
  return names;
}

std::string page_of(const CLI::App& app, const std::string& name) {
  if (name.empty()) return man_page(app);
  for (const CLI::App* command : commands_of(app))
    if (command->get_name() == name) return man_page(app, *command);
  throw UsageError(
      fmt::format("man: '{}' is not a command{}", name, suggestion(name, names_of(commands_of(app)))));
}

void write_pages(const CLI::App& app, const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  const auto write = [&](const std::string& name, const std::string& page) {
    write_atomically(folder / (name + ".1"), page, false);
  };
  write(app.get_name(), man_page(app));
  for (const CLI::App* command : commands_of(app))
    write(app.get_name() + "-" + command->get_name(), man_page(app, *command));
}

int print_manual(const CLI::App& app, const ManOptions& options) {
  if (!options.folder.empty() && !options.command.empty())
    throw UsageError("man: --folder writes every page and does not take a COMMAND");
  if (options.folder.empty())
    print(page_of(app, options.command));
  else
    write_pages(app, options.folder);
  return fine;
}

}  // namespace

void add_man(CLI::App& app, Context& context) {
  auto options = std::make_shared<ManOptions>();
  CLI::App* command =
      app.add_subcommand("man", "Print the manual page of the program or of a command, in roff");
  CLI::Option* name = command->add_option(
      "COMMAND", options->command, "The command (default: assay(1)); to read it: assay man run | man -l -");
  command
      ->add_option("--folder", options->folder,
                   "Write every page to this folder: assay.1, assay-run.1 and so on")
      ->type_name("DIR");
  context.choices[name] = names_of(commands_of(app));
  add_examples(*command, {"assay man run | man -l -", "assay man --folder /usr/local/share/man/man1"});
  command->callback([options, &app, &context] {
    context.action = [options, &app] { return print_manual(app, *options); };
  });
}

}  // namespace assay::cli
