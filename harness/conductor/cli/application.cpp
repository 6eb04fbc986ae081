#include "harness/conductor/cli/application.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <new>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "harness/conductor/backends/build_info.hpp"
#include "harness/conductor/cli/command_io.hpp"
#include "harness/conductor/cli/commands/commands.hpp"
#include "harness/conductor/cli/completion.hpp"
#include "harness/conductor/cli/exit_code.hpp"
#include "harness/conductor/cli/table_options.hpp"
#include "harness/conductor/config/options.hpp"
#include "harness/core/error.hpp"
#include "harness/core/paths.hpp"
#include "harness/core/text.hpp"

namespace assay::cli {
namespace {

constexpr const char* description =
    "Assay runs the same network, from the same bits, on every deep-learning backend, proves that they\n"
    "compute the same thing, times them and writes one report.";
constexpr const char* exit_codes =
    "Exit codes: 0 success, 1 a fault of the program, 2 bad input, 3 regression, 4 incomplete (a cell is\n"
    "missing or not ok), 5 environments that are not comparable, 6 inconclusive.\n"
    "assay COMMAND --help lists the options of a command.";

std::string version_text() {
  const BuildInfo& build = build_info();
  return fmt::format(
      "assay {} (commit {}{}, build type {})", build.version, build.commit.empty() ? "unknown" : build.commit,
      build.dirty ? " with local changes" : "", build.build_type.empty() ? "None" : build.build_type);
}

// Rejects the arguments that the parser does not know; suggests the nearest option or command.
[[noreturn]] void reject_leftovers(const CLI::App& command, const std::vector<std::string>& leftovers,
                                   bool top) {
  const std::string& word = leftovers.front();
  std::vector<std::string> known;
  if (word.starts_with("-")) {
    for (const CLI::Option* option : command.get_options())
      if (!option->get_lnames().empty()) known.push_back("--" + option->get_lnames().front());
  } else if (top && word == "plot") {
    throw UsageError(
        "unknown command 'plot'; pictures and the page come from scripts/plot REPORT (in the wheel: assay-plot)");
  } else if (top) {
    for (const CLI::App* one : command.get_subcommands([](const CLI::App*) { return true; }))
      known.push_back(one->get_name());
  } else {
    throw UsageError(fmt::format("{}: unexpected argument '{}'; see assay {} --help", command.get_name(),
                                 word, command.get_name()));
  }
  const std::string name = word.substr(0, word.find('='));
  throw UsageError(fmt::format("{}unknown {} '{}'{}", top ? "" : command.get_name() + ": ",
                               word.starts_with("-") ? "option" : "command", name, suggestion(name, known)));
}

// The name of the given command and a space; empty without a command.
std::string chosen(const CLI::App& app) {
  const auto commands = app.get_subcommands();
  return commands.empty() ? "" : commands.front()->get_name() + " ";
}

// The arguments in the order that the parser takes: from last to first. `assay help run` is `assay run --help`.
std::vector<std::string> words_of(int argc, char** argv) {
  std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  if (!words.empty() && words.front() == "help") {
    words.erase(words.begin());
    words.emplace_back("--help");
  }
  std::ranges::reverse(words);
  return words;
}

std::string plain_text(const CLI::ParseError& error) {
  const std::string said = error.what();
  constexpr std::string_view twice = ": At Most 1 required";
  const std::size_t at = said.find(twice);
  if (at == said.npos) return said;
  return said.substr(0, at) + " is given more than once; separate several values with commas";
}

// Opens the closed ones of descriptors 0 to 2: otherwise the next file that is opened would get one of these
// numbers and receive the printed text. Standard output is opened read-only, so that printing to it fails.
void fill_standard_descriptors() {
  for (const int number : {0, 1, 2}) {
    if (::fcntl(number, F_GETFD) >= 0 || errno != EBADF) continue;
    const int null = ::open("/dev/null", number == 2 ? O_WRONLY : O_RDONLY);
    if (null >= 0 && null != number) {
      ::dup2(null, number);
      ::close(null);
    }
  }
}

// Gives threads and workers the usual stack, as far as the hard limit permits. A small one would crash them somewhere.
void require_stack() {
  constexpr rlim_t usual = 8 << 20, min = 1 << 20;  // bytes
  rlimit limit{};
  if (::getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= usual) return;
  limit.rlim_cur = std::min(usual, limit.rlim_max);
  if (limit.rlim_cur < min)
    throw UsageError(fmt::format(
        "the stack is limited to {} KiB, and frameworks need {} KiB: raise the limit before the call (ulimit -s {})",
        limit.rlim_max >> 10, min >> 10, usual >> 10));
  if (::setrlimit(RLIMIT_STACK, &limit) != 0) return;
  pthread_attr_t attributes;
  ::pthread_attr_init(&attributes);
  ::pthread_attr_setstacksize(&attributes, limit.rlim_cur);
  ::pthread_setattr_default_np(&attributes);  // it was taken from the limit when the program began
  ::pthread_attr_destroy(&attributes);
}

// hwloc would describe another machine, and the sizes of its caches would decide what is cold.
void describe_this_machine() {
  for (const auto& [name, value] : environment_variables())
    if (name.starts_with("HWLOC_")) ::unsetenv(name.c_str());
}

// The files that this program makes are its own to read and write, whatever the mask.
void keep_own_permissions() {
  const mode_t mask = ::umask(S_IRWXG | S_IRWXO);
  ::umask(mask & ~static_cast<mode_t>(S_IRWXU));
}

}  // namespace

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

bool takes_several(const CLI::Option& option) {
  return option.get_items_expected_max() >= CLI::detail::expected_max_vector_size;
}

// Help prints the footer last, so the examples are its last paragraph.
void add_filter(CLI::App& command, std::string& filter) {
  command.add_option("--filter", filter, "Only cells whose id contains one of these texts")
      ->type_name("TEXT,...")
      ->check([](const std::string& text) {
        return text.empty() ? std::string("it is empty; leave --filter out for all cells") : std::string();
      });
}

void add_examples(CLI::App& command, std::initializer_list<std::string_view> calls) {
  std::string text = command.get_footer() + (command.get_footer().empty() ? "" : "\n\n");
  text += calls.size() == 1 ? "Example:" : "Examples:";
  for (const std::string_view call : calls) text += fmt::format("\n  {}", call);
  command.footer(text);
}

std::vector<std::string> examples_of(const CLI::App& command) {
  std::vector<std::string> calls;
  for (const std::string& line : split(command.get_footer(), '\n'))
    if (line.starts_with("  ")) calls.push_back(line.substr(2));
  return calls;
}

int run_application(int argc, char** argv) {
  fill_standard_descriptors();
  keep_own_permissions();
  describe_this_machine();
  require_stack();
  std::signal(SIGPIPE, SIG_IGN);  // `assay show … | head`: write() fails instead
  std::signal(SIGXFSZ, SIG_IGN);  // the same for a file size limit (ulimit -f)
  CLI::App app(description, "assay");
  app.set_version_flag("-V,--version", version_text(), "Print version, commit and build type, and exit");
  app.get_formatter()->column_width(32);
  app.allow_extras();
  app.require_subcommand(0, 1);  // `assay run list`: a config may have the name of a command

  Context context;
  context.command_line.assign(argv, argv + argc);
  add_list(app, context);
  add_run(app, context);
  add_check(app, context);
  add_merge(app, context);
  add_show(app, context);
  add_validate(app, context);
  add_compare(app, context);
  add_ab(app, context);
  add_calibrate(app, context);
  add_import(app, context);
  add_inspect(app, context);
  add_env(app, context);
  add_setup(app, context);
  add_completion(app, context);
  add_docs(app, context);
  for (CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    command->allow_extras();
    for (CLI::Option* option : command->get_options())  // those of the table have their lines already
      if (const std::string text = option->get_description(); text.find('\n') == text.npos)
        option->description(help_lines(text));
  }

  app.footer(exit_codes);  // after the commands, which would inherit it
  add_examples(app, {"assay list backends", "assay run --workload lenet5 --backend onednn,torch"});

  if (argc > 1 && argv[1] == completion_request) {
    for (const std::string& word : candidates(app, context.choices, {argv + 2, argv + argc}))
      print(word + "\n");
    return fine;
  }
  try {
    app.parse(words_of(argc, argv));
  } catch (const CLI::Success& wanted) {  // --help, --version
    if (const auto left = app.remaining(); !left.empty() && app.get_subcommands().empty())
      reject_leftovers(app, left, true);
    const int code = app.exit(wanted);
    if (!std::cout.flush()) throw IoError("print", "standard output", "cannot be written", errno);
    return code;
  } catch (const CLI::ParseError& error) {
    throw UsageError(fmt::format("{}; see assay {}--help", plain_text(error), chosen(app)));
  }
  if (const auto left = app.remaining(); !left.empty()) reject_leftovers(app, left, true);
  for (const CLI::App* command : app.get_subcommands())
    if (const auto left = command->remaining(); !left.empty()) reject_leftovers(*command, left, false);
  if (!context.action) {
    print(app.help());
    return bad_input;
  }
  return context.action();
}

int explain_exception() noexcept {
  try {
    try {
      throw;
    } catch (const Error& error) {
      return warn(error.what()), bad_input;
    } catch (const std::filesystem::filesystem_error& error) {
      const std::filesystem::path path = error.path1().empty() ? "." : error.path1();
      return warn(IoError("files", path, "cannot be used", error.code().value()).what()), bad_input;
    } catch (const std::system_error& error) {
      // The reader closed the pipe, so nobody can read a message.
      if (error.code() == std::errc::broken_pipe) return own_failure;
      const bool is_of_the_place =
          error.code() == std::errc::no_space_on_device || is_limit_of_processes(error);
      return warn(message_of(error)), is_of_the_place ? bad_input : own_failure;
    } catch (const std::bad_alloc& error) {
      return warn(internal_error(error)), bad_input;
    } catch (const std::exception& error) {
      return warn(internal_error(error)), own_failure;
    }
  } catch (...) {
    return own_failure;
  }
}

}  // namespace assay::cli
