// assay docs: the generated parts of the reference pages.
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "harness/conductor/cli/command_io.hpp"
#include "harness/conductor/cli/command_tables.hpp"
#include "harness/conductor/cli/commands/commands.hpp"
#include "harness/conductor/cli/exit_code.hpp"
#include "harness/conductor/docs/pages.hpp"
#include "harness/core/io/atomic_file.hpp"
#include "harness/core/io/file.hpp"
#include "harness/core/text.hpp"

namespace assay::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* reference_folder = "docs/reference";

struct DocsOptions {
  std::vector<std::string> pages;
  std::string out;
  bool check = false;
};

std::vector<Page> all_pages(const CLI::App& app) {
  std::vector<Page> pages = reference_pages();
  pages.push_back({"command-line",
                   "The command line",
                   {{"commands", [&app] { return command_table(app); }},
                    {"options", [&app] { return option_tables(app); }}}});
  return pages;
}

std::vector<std::string> names_of(const std::vector<Page>& pages) {
  std::vector<std::string> names;
  for (const Page& page : pages) names.push_back(page.name);
  return names;
}

std::vector<Page> wanted_pages(const CLI::App& app, const DocsOptions& options) {
  std::vector<Page> pages = all_pages(app);
  const std::vector<std::string> known = names_of(pages);
  for (const std::string& name : options.pages)
    if (!contains(known, name))
      throw UsageError(fmt::format("docs: '{}' is not a page{}", name, suggestion(name, known)));
  if (!options.pages.empty())
    std::erase_if(pages, [&](const Page& page) { return !contains(options.pages, page.name); });
  return pages;
}

fs::path folder_of(const DocsOptions& options) {
  const fs::path folder = options.out.empty() ? reference_folder : options.out;
  if (fs::is_directory(folder)) return folder;
  if (options.check || options.out.empty())
    throw UsageError(fmt::format(
        "docs: {} is not a folder; run this in the root of the source tree, or name a folder with --out",
        folder.string()));
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw IoError("docs", folder, "cannot be made", error.value());
  return folder;
}

int write_docs(const CLI::App& app, const DocsOptions& options) {
  const std::vector<Page> pages = wanted_pages(app, options);
  const fs::path folder = folder_of(options);
  int code = fine;
  for (const Page& page : pages) {
    const fs::path file = folder / (page.name + ".md");
    const bool there = fs::exists(file);
    const std::string before = there ? read_text(file) : "";
    const std::string after = there ? updated_text(page, before, file.string()) : new_text(page);
    if (before == after) continue;
    if (options.check) {
      warn(fmt::format("{} {}; write it with: assay docs {}", file.string(),
                       there ? "differs from what the program would write" : "is missing", page.name));
      code = bad_input;
    } else {
      write_atomically(file, after, false);
      print(file.string() + "\n");
    }
  }
  return code;
}

}  // namespace

void add_docs(CLI::App& app, Context& context) {
  auto options = std::make_shared<DocsOptions>();
  CLI::App* command = app.add_subcommand("docs", "Write the generated parts of the reference pages");
  CLI::Option* pages =
      command->add_option("PAGE", options->pages, "Which pages, such as axes or report (default: all)");
  command
      ->add_option("--out", options->out,
                   fmt::format("The folder of the pages; prose that is there stays [{}]", reference_folder))
      ->type_name("DIR");
  command->add_flag("--check", options->check,
                    "Write nothing; print the pages that differ, and exit with 2 if there are any");
  context.choices[pages] = names_of(all_pages(app));
  add_examples(*command, {"assay docs", "assay docs axes --check"});
  command->callback(
      [options, &app, &context] { context.action = [options, &app] { return write_docs(app, *options); }; });
}

}  // namespace assay::cli
