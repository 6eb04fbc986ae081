// assay show: the tables of a report.
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "harness/conductor/cli/command_io.hpp"
#include "harness/conductor/cli/commands/commands.hpp"
#include "harness/conductor/cli/exit_code.hpp"
#include "harness/conductor/config/options.hpp"
#include "harness/conductor/print/printers.hpp"
#include "harness/conductor/print/questions.hpp"
#include "harness/conductor/print/report_tables.hpp"
#include "harness/core/text.hpp"

namespace assay::cli {
namespace {

namespace fs = std::filesystem;

struct ShowOptions {
  std::vector<std::string> files;
  std::string format = "console";
  std::string filter;
  std::vector<std::string> questions;
  std::optional<double> accuracy;
};

// Each report keeps its own tables, because cells of different reports did not run in the same rounds.
std::vector<Table> tables_of(const std::vector<Report>& reports, const ShowOptions& options) {
  std::vector<Table> tables;
  for (std::size_t i = 0; i < reports.size(); ++i) {
    std::vector<Table> of_report = summary(reports[i]);
    if (options.accuracy)
      if (Table table = time_to_accuracy_table(analyze(reports[i]), *options.accuracy); !table.rows.empty())
        of_report.push_back(std::move(table));
    for (Table& table : of_report) {
      if (reports.size() > 1 && !table.title.empty()) table.title += " (" + options.files[i] + ")";
      tables.push_back(std::move(table));
    }
  }
  return tables;
}

// The file name of each report, with as many parent folders as needed to make the names differ.
std::vector<std::string> labels(const std::vector<std::string>& files) {
  constexpr int max_folders = 20;
  std::vector<std::string> found;
  for (int folders = 0; folders < max_folders; ++folders) {
    found.clear();
    for (const std::string& file : files) {
      std::error_code ignored;
      const fs::path path = fs::weakly_canonical(file, ignored);
      std::string label = (path.extension() == ".gz" ? path.stem() : path).stem().string();
      fs::path parent = path.parent_path();
      for (int i = 0; i < folders && parent.has_filename(); ++i, parent = parent.parent_path())
        label = parent.filename().string() + "/" + label;
      found.push_back(label);
    }
    if (std::set<std::string>(found.begin(), found.end()).size() == found.size()) return found;
  }
  // The same file is given twice.
  for (std::size_t i = 0; i < found.size(); ++i) found[i] += fmt::format(" ({})", i + 1);
  return found;
}

void print_analysis(const std::vector<Report>& reports, const ShowOptions& options) {
  Analysis all = analyze(reports, labels(options.files));
  const std::vector<Question> questions = read_questions(options.questions, all);
  print(analysis_text(std::move(all), questions, options.accuracy));
}

const std::vector<std::string>& show_formats() {
  static const std::vector<std::string> formats{"console", "markdown", "csv", "json", "gbench"};
  return formats;
}

int show(const ShowOptions& options) {
  if (!contains(show_formats(), options.format))
    throw UsageError(fmt::format("show: unknown format '{}'{}", options.format,
                                 suggestion(options.format, show_formats())));
  if (options.format == "gbench" && options.files.size() > 1)
    throw UsageError("show: --format gbench takes only one report, because the format has one context");
  if (!options.questions.empty() && options.format != "json")
    throw UsageError("show: --ask adds answers to --format json; no other format has them");
  if (options.accuracy && (options.format == "csv" || options.format == "gbench"))
    throw UsageError("show: --time-to-accuracy adds to the formats console, markdown and json only");
  std::vector<Report> reports;
  std::vector<std::string> ids;
  for (const std::string& file : options.files) {
    reports.push_back(load_report(file, Contradictions::shown));
    if (options.format == "gbench" && reports.back().environments.size() > 1)
      throw UsageError(
          "show: --format gbench takes only the report of one machine, because the format has one context");
    for (const CellReport& cell : reports.back().cells) ids.push_back(cell.id);
  }
  check_filter(options.filter, ids, "show");
  for (Report& report : reports)
    std::erase_if(report.cells, [&](const CellReport& cell) { return !is_wanted(cell.id, options.filter); });

  if (options.format == "markdown")
    print(markdown(tables_of(reports, options)));
  else if (options.format == "csv")
    print(csv(reports));
  else if (options.format == "json")
    print_analysis(reports, options);
  else if (options.format == "gbench")
    print(gbench_text(reports.front()));
  else
    print(tables_of(reports, options));
  return fine;
}

}  // namespace

void add_show(CLI::App& app, Context& context) {
  auto options = std::make_shared<ShowOptions>();
  CLI::App* command =
      app.add_subcommand("show", "Show tables: measured next to published, paired ratios, tax, memory");
  command->add_option("REPORT", options->files, "Reports; - is standard input")->required();
  CLI::Option* format =
      command
          ->add_option("--format", options->format,
                       "console, markdown, csv (one row per cell and metric), json (all derived numbers) or "
                       "gbench [console]")
          ->type_name("FORMAT");
  context.choices[format] = show_formats();
  add_filter(*command, options->filter);
  command
      ->add_option(
          "--ask", options->questions,
          "With --format json, also: a metric of a cell over its rounds, or its ratio to one of another "
          "cell, paired within rounds; once or more")
      ->type_name("METRIC[/METRIC],CELL[,CELL]")
      ->take_all()
      ->allow_extra_args(false);
  command
      ->add_option("--time-to-accuracy", options->accuracy,
                   "Also the time of training until the end of the first epoch with this accuracy on the "
                   "validation split, or without one on the test split")
      ->type_name("SHARE")
      ->check(
          [](const std::string& text) {
            char* end = nullptr;
            const double share = std::strtod(text.c_str(), &end);
            const bool is_share = !text.empty() && *end == '\0' && share >= 1e-6 && share <= 1;
            return is_share ? std::string() : fmt::format("got '{}': must be a share from 1e-06 to 1", text);
          },
          "SHARE");
  add_examples(*command, {"assay show reports/mlp.json",
                          "assay show reports/mlp.json --format markdown --filter onednn,torch"});
  command->callback([options, &context] { context.action = [options] { return show(*options); }; });
}

}  // namespace assay::cli
