// assay setup: the virtual environments of frameworks.
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include "harness/conductor/backends/frameworks.hpp"
#include "harness/conductor/cli/command_io.hpp"
#include "harness/conductor/cli/commands/commands.hpp"
#include "harness/conductor/cli/exit_code.hpp"
#include "harness/core/text.hpp"

namespace assay::cli {
namespace {

namespace fs = std::filesystem;

struct SetupOptions {
  std::vector<std::string> names;
  std::string python = "python3";
  bool dry_run = false;
  bool cuda = false;
};

std::vector<Framework> chosen_frameworks(const std::vector<std::string>& names, bool cuda) {
  const BackendRegistry registry = find_backends();
  std::vector<Framework> all = installable_frameworks(registry, cuda);
  if (names == std::vector<std::string>{"all"}) {
    std::erase_if(all, [&](const Framework& framework) { return framework.only_for_gpus && !cuda; });
    return all;
  }
  std::vector<Framework> chosen;
  for (const std::string& name : names) {
    const auto found = std::ranges::find(all, name, &Framework::name);
    if (found != all.end()) {
      chosen.push_back(*found);
      continue;
    }
    if (const BackendDescription* backend = registry.find(name))
      throw UsageError(
          backend->available()
              ? fmt::format("setup: '{}' has no environment: nothing needs to be set up for it", name)
              : fmt::format("setup: '{}' has no environment that could be set up: {}; {}", name,
                            backend->unavailable, backend->remedy));
    std::vector<std::string> known{"all"};
    for (const Framework& framework : all) known.push_back(framework.name);
    throw UsageError(fmt::format("setup: '{}' is not a framework{}", name, suggestion(name, known)));
  }
  return chosen;
}

void print_dry_run(const Framework& framework, const fs::path& environment) {
  if (is_installed(framework, environment)) {
    print(fmt::format("{}: {} is there already\n", framework.name, environment.string()));
    return;
  }
  const std::vector<std::string> pins = pins_of(framework);
  print(fmt::format("{}: {} distributions into {}\n  {}\n", framework.name, pins.size(), environment.string(),
                    fmt::join(pins, "\n  ")));
}

void print_packages(const Framework& framework) {
  const std::vector<std::string> packages = packages_of(framework);
  if (packages.empty()) return;
  print(fmt::format("{} also needs packages of the system: apt-get install {}\n", framework.name,
                    fmt::join(packages, " ")));
}

// Waits for the program; its output is this program's. Returns its exit code, 128 + the signal if one ended it.
int run_program(const std::vector<std::string>& command) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  sigset_t defaults;
  ::sigemptyset(&defaults);
  for (const int number : {SIGINT, SIGPIPE, SIGXFSZ}) ::sigaddset(&defaults, number);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setsigdefault(&attributes, &defaults);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  const auto before = std::signal(SIGINT, SIG_IGN);  // Ctrl-C ends the program, which then cleans up
  pid_t pid = 0;
  const int error = ::posix_spawnp(&pid, arguments[0], nullptr, &attributes, arguments.data(), environ);
  ::posix_spawnattr_destroy(&attributes);
  int status = 0;
  if (error == 0)
    while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
  std::signal(SIGINT, before);
  if (error != 0)
    throw UsageError(fmt::format("setup: {} cannot be started: {}; name another Python with --python",
                                 command[0], std::generic_category().message(error)));
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int set_up(const SetupOptions& options) {
  for (const Framework& framework : chosen_frameworks(options.names, options.cuda)) {
    const auto environment = environment_of(framework.name);
    if (!environment)
      throw UsageError(
          "setup: the folder of the environments is unknown: none of ASSAY_ENVIRONMENTS, XDG_DATA_HOME and "
          "HOME is set; set ASSAY_ENVIRONMENTS");
    if (options.dry_run) {
      print_dry_run(framework, *environment);
    } else {
      print(framework.name + ":\n");
      const int code = run_program({options.python, environment_maker().string(),
                                    framework.requirements.string(), environment->string()});
      if (code != 0)
        throw UsageError(fmt::format("setup: {} was not set up: the installation ended with code {}",
                                     framework.name, code));
    }
    print_packages(framework);
  }
  return fine;
}

}  // namespace

void add_setup(CLI::App& app, Context& context) {
  auto options = std::make_shared<SetupOptions>();
  CLI::App* command =
      app.add_subcommand("setup", "Install frameworks: a virtual environment for each, from pinned wheels");
  command
      ->add_option("FRAMEWORK", options->names,
                   "Which, with commas, such as torch,jax; all: every framework that there is")
      ->required()
      ->delimiter(',');
  command->add_flag("--dry-run", options->dry_run,
                    "Install nothing; print what would be installed and where");
  command->add_flag(
      "--cuda", options->cuda,
      "The builds for NVIDIA GPUs; a framework with only one build is installed as without it; `all` has "
      "CUDA for the backend cuda, too");
  command->add_option("--python", options->python, "The Python of the environments, 3.11 or later [python3]")
      ->type_name("FILE");
  add_examples(*command, {"assay setup torch,jax", "assay setup --dry-run all",
                          "assay setup --cuda tensorflow,jax", "assay setup cuda"});
  command->callback([options, &context] { context.action = [options] { return set_up(*options); }; });
}

}  // namespace assay::cli
