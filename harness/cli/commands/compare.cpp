// assay compare: the verdict of a gate over two reports.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "harness/cli/commands/commands.hpp"
#include "harness/cli/exit_code.hpp"
#include "harness/cli/print.hpp"
#include "harness/cli/report_files.hpp"
#include "harness/cli/usage_error.hpp"
#include "harness/gate/compare.hpp"
#include "harness/gate/comparison_exports.hpp"
#include "harness/gate/comparison_tables.hpp"
#include "harness/graph/nearest.hpp"
#include "harness/report/strict_json.hpp"

namespace assay::cli {
namespace {

struct Options {
  std::string base, current, format = "console";
  std::string threshold = "5%", confidence = "95%", memory_threshold = "10%", accuracy_threshold = "1%";
  CompareSettings settings;
  bool allow_environment = false;
  bool fail_on_inconclusive = false;
};

// "5%" or "0.05".
double share(const std::string& text, const char* option, double most) {
  const bool percent = text.ends_with('%');
  try {
    std::size_t end = 0;
    const double value = std::stod(text, &end) / (percent ? 100 : 1);
    if (end + (percent ? 1 : 0) == text.size() && value > 0 && value < most) return value;
  } catch (const std::logic_error&) {
    // not a number: said below
  }
  throw UsageError(fmt::format("compare: {} '{}': a share such as 5% or 0.05, above 0 and below {:g}%",
                               option, text, 100 * most));
}

void print_as(const std::string& format, const Comparison& comparison, int code) {
  if (format == "markdown")
    print(comparison_markdown(comparison));
  else if (format == "json")
    print(strict_json_text(comparison_json(comparison, code)) + "\n");
  else if (format == "junit")
    print(comparison_junit(comparison));
  else if (format == "github")
    print(comparison_annotations(comparison));
  else
    print(comparison_tables(comparison));
}

int compare_reports(Options options) {
  static const std::vector<std::string> formats{"console", "markdown", "json", "junit", "github"};
  if (std::find(formats.begin(), formats.end(), options.format) == formats.end())
    throw UsageError(
        fmt::format("compare: '{}' is no format{}", options.format, suggestion(options.format, formats)));
  options.settings.threshold = share(options.threshold, "--threshold", 10);
  options.settings.confidence = share(options.confidence, "--confidence", 1);
  options.settings.breakage.memory_threshold = share(options.memory_threshold, "--memory-threshold", 100);
  options.settings.breakage.accuracy_threshold = share(options.accuracy_threshold, "--accuracy-threshold", 1);
  options.settings.breakage.confidence = options.settings.confidence;
  const Comparison comparison =
      compare(load_report(options.base), load_report(options.current), options.settings);
  const int code = exit_code(comparison, options.allow_environment, options.fail_on_inconclusive);
  print_as(options.format, comparison, code);
  return code;
}

}  // namespace

void add_compare(CLI::App& app, Context& context) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "compare", "Verdicts over two reports, cell by cell, and the exit code of a CI gate");
  command->add_option("BASE", options->base, "The report to hold to; - is standard input")->required();
  command->add_option("NEW", options->current, "The report to judge")->required();
  command->add_option("--threshold", options->threshold, "A smaller change of time is no regression [5%]");
  command->add_option("--confidence", options->confidence, "That all intervals hold together [95%]");
  command->add_option(
      "--metric", options->settings.metric,
      "What is judged; without it epoch time, latency or step time, as the cell was measured");
  command->add_option("--filter", options->settings.filter, "Only cells whose id holds TEXT")
      ->type_name("TEXT");
  command->add_option("--memory-threshold", options->memory_threshold,
                      "More growth of memory is broken [10%]");
  command->add_option("--accuracy-threshold", options->accuracy_threshold,
                      "A larger fall of accuracy is broken, in points of 100 [1%]");
  command->add_flag("--allow-env", options->allow_environment,
                    "Compare although processor, GPU or versions differ");
  command->add_flag("--fail-on-inconclusive", options->fail_on_inconclusive,
                    "Exit 6 where a cell is undecided");
  command->add_option("--format", options->format, "console, markdown, json, junit or github [console]")
      ->type_name("FORMAT");
  command->callback(
      [options, &context] { context.action = [options] { return compare_reports(*options); }; });
}

}  // namespace assay::cli
