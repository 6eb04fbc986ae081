#include "harness/conductor/cli/verdict_options.hpp"

#include <algorithm>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "harness/conductor/cli/command_io.hpp"
#include "harness/conductor/compare/comparison_exports.hpp"
#include "harness/core/json/strict_json.hpp"
#include "harness/core/text.hpp"

namespace assay::cli {
namespace {

const std::vector<std::string>& verdict_formats() {
  static const std::vector<std::string> formats{"console", "markdown", "json", "junit", "github"};
  return formats;
}

}  // namespace

void VerdictOptions::add(CLI::App& command, Context& context) {
  command.add_option("--threshold", threshold_,
                     fmt::format("Smallest change of time that is a regression [{}]", threshold_));
  command.add_option("--confidence", confidence_,
                     fmt::format("Confidence that all intervals hold at once [{}]", confidence_));
  command.add_option("--metric", metric_,
                     "Metric to compare (default: epoch time, latency or step time, depending on the cell)");
  command.add_option("--memory-threshold", memory_threshold_,
                     "Growth of memory above which a cell is broken [10%]");
  command.add_option("--accuracy-threshold", accuracy_threshold_,
                     "Fall of accuracy, in percentage points, above which a cell is broken [1%]");
  CLI::Option* format =
      command.add_option("--format", format_, "console, markdown, json, junit or github [console]")
          ->type_name("FORMAT");
  context.choices[format] = verdict_formats();
}

BreakageSettings VerdictOptions::breakage() const {
  BreakageSettings settings;
  settings.memory_threshold = share_of(memory_threshold_, "--memory-threshold", 100);
  settings.accuracy_threshold = share_of(accuracy_threshold_, "--accuracy-threshold", 1);
  return settings;
}

void VerdictOptions::require_format() const {
  if (!contains(verdict_formats(), format_))
    throw UsageError(fmt::format("unknown format '{}'{}", format_, suggestion(format_, verdict_formats())));
}

void VerdictOptions::print(const Comparison& comparison, int code) const {
  if (format_ == "markdown")
    cli::print(comparison_markdown(comparison));
  else if (format_ == "json")
    cli::print(strict_json_text(comparison_json(comparison, code)) + "\n");
  else if (format_ == "junit")
    cli::print(comparison_junit(comparison));
  else if (format_ == "github")
    cli::print(comparison_annotations(comparison));
  else
    cli::print(comparison_tables(comparison));
}

}  // namespace assay::cli
