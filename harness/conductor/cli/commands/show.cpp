// assay show: the tables of a report.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "harness/conductor/cli/commands/commands.hpp"
#include "harness/conductor/cli/print.hpp"
#include "harness/conductor/cli/report_files.hpp"
#include "harness/conductor/cli/usage_error.hpp"
#include "harness/conductor/print/csv.hpp"
#include "harness/conductor/print/gbench.hpp"
#include "harness/conductor/print/markdown.hpp"
#include "harness/conductor/print/summary.hpp"
#include "harness/conductor/run/exit_code.hpp"
#include "harness/core/text.hpp"

namespace assay::cli {
namespace {

struct ShowOptions {
  std::vector<std::string> files;
  std::string format = "console";
};

// Cells of several reports were not run in the same rounds: each report keeps its own tables.
std::vector<Table> tables_of(const std::vector<Report>& reports, const std::vector<std::string>& files) {
  std::vector<Table> tables;
  for (std::size_t i = 0; i < reports.size(); ++i)
    for (Table& table : summary(reports[i])) {
      if (reports.size() > 1 && !table.title.empty()) table.title += " (" + files[i] + ")";
      tables.push_back(std::move(table));
    }
  return tables;
}

int show(const ShowOptions& options) {
  static const std::vector<std::string> formats{"console", "markdown", "csv", "gbench"};
  if (std::find(formats.begin(), formats.end(), options.format) == formats.end())
    throw UsageError(
        fmt::format("show: '{}' is no format{}", options.format, suggestion(options.format, formats)));
  if (options.format == "gbench" && options.files.size() > 1)
    throw UsageError("show: --format gbench takes one report: that format has one context");
  std::vector<Report> reports;
  for (const std::string& file : options.files) reports.push_back(load_report(file));

  if (options.format == "markdown")
    print(markdown(tables_of(reports, options.files)));
  else if (options.format == "csv")
    print(csv(reports));
  else if (options.format == "gbench")
    print(gbench_text(reports.front()));
  else
    print(tables_of(reports, options.files));
  return fine;
}

}  // namespace

void add_show(CLI::App& app, Context& context) {
  auto options = std::make_shared<ShowOptions>();
  CLI::App* command =
      app.add_subcommand("show", "Tables: measured beside published, paired ratios, tax, memory");
  command->add_option("REPORT", options->files, "Reports; - is standard input")->required();
  command
      ->add_option("--format", options->format,
                   "console, markdown, csv (one row per cell and metric) or gbench [console]")
      ->type_name("FORMAT");
  command->callback([options, &context] { context.action = [options] { return show(*options); }; });
}

}  // namespace assay::cli
