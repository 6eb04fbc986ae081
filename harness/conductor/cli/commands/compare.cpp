// assay compare: verdicts about two reports, for a CI gate.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "harness/conductor/cli/command_io.hpp"
#include "harness/conductor/cli/commands/commands.hpp"
#include "harness/conductor/cli/exit_code.hpp"
#include "harness/conductor/cli/verdict_options.hpp"
#include "harness/conductor/compare/calibration.hpp"
#include "harness/conductor/compare/cell_decision.hpp"
#include "harness/conductor/compare/compare.hpp"
#include "harness/conductor/compare/doubt.hpp"
#include "harness/conductor/config/options.hpp"
#include "harness/core/text.hpp"
#include "harness/report/environment_difference.hpp"

namespace assay::cli {
namespace {

namespace fs = std::filesystem;

struct CompareOptions {
  std::vector<std::string> reports;  // the last one is compared with the others
  std::string filter, calibration, detect;
  VerdictOptions verdict;
  std::vector<std::string> allow;
};

std::optional<fs::path> calibration_of(const CompareOptions& options, const std::string& fingerprint) {
  if (options.calibration == "none") return std::nullopt;
  if (!options.calibration.empty()) return options.calibration;
  std::error_code ignored;
  const fs::path usual = calibration_place(fingerprint);
  return !fingerprint.empty() && fs::exists(usual, ignored) ? std::optional(usual) : std::nullopt;
}

// "3 sessions from 2026-01-02T03:04:05Z on"
std::string sessions_text(const Calibration& calibration) {
  std::string oldest = calibration.made;
  for (const CalibrationSession& session : calibration.sessions) oldest = std::min(oldest, session.made);
  return calibration.sessions.size() == 1
             ? fmt::format("a session of {}", oldest)
             : fmt::format("{} sessions from {} on", calibration.sessions.size(), oldest);
}

// Adds the runs of the calibration of the machine of the new report. Returns a note for the reader; empty without a
// calibration.
std::string take_calibration(CompareSettings& settings, const CompareOptions& options,
                             const Report& current) {
  const std::string fingerprint = shared_fingerprint(current).value_or("");
  const auto file = calibration_of(options, fingerprint);
  if (!file) return {};
  const Calibration calibration = read_calibration(*file);
  if (calibration.fingerprint != fingerprint)
    throw UsageError(
        fmt::format("compare: {} is the calibration of another machine ({}, {}); the new report is from {}",
                    file->string(), calibration.fingerprint, calibration.machine,
                    fingerprint.empty() ? "unlike or unknown machines" : fingerprint));
  const std::string date = utc_now();
  InForce now = in_force(calibration, current.environment, date);
  for (const MachineRecord& machine : current.environments)
    if (now.calibration) now = in_force(calibration, machine, date);
  if (!now.calibration) {
    const std::string& why = now.left_out.front();
    if (!options.calibration.empty())
      throw UsageError(
          fmt::format("compare: {}: {}; calibrate again (assay calibrate)", file->string(), why));
    return fmt::format("The calibration of this machine is not used: {} (run assay calibrate)", why);
  }
  settings.histories = now.calibration->histories();
  std::string note =
      fmt::format("The difference between runs is also known from the calibration of this machine: {}, {}",
                  file->string(), sessions_text(*now.calibration));
  if (!now.left_out.empty())
    note += fmt::format("; without {} of its {} ({})", now.left_out.size(),
                        plural(calibration.sessions.size(), "session"), now.left_out.front());
  return note;
}

int compare_reports(const CompareOptions& options) {
  options.verdict.require_format();
  CompareSettings settings;
  settings.threshold = options.verdict.threshold();
  settings.confidence = options.verdict.confidence();
  settings.metric = options.verdict.metric();
  settings.filter = options.filter;
  settings.breakage = options.verdict.breakage();
  settings.overlooked = Allowed::parse(options.allow);
  settings.detect = options.detect.empty() ? 0 : share_of(options.detect, "--detect", max_threshold);
  const ReportsToCompare reports =
      load_reports_to_compare({options.reports.begin(), options.reports.end() - 1}, options.reports.back());
  if (reports.bases.empty()) {
    warn(reports.why);
    return not_comparable;
  }
  std::vector<const Report*> bases;
  for (const Report& base : reports.bases) bases.push_back(&base);
  std::vector<const Report*> all = bases;
  all.push_back(&reports.current);
  settings.overlooked.require_known(all);
  const std::string note = take_calibration(settings, options, reports.current);
  Comparison comparison = compare(bases, reports.current, settings);
  if (!note.empty()) comparison.notes.push_back(note);
  const int code = exit_code(comparison);
  options.verdict.print(comparison, code);
  return code;
}

}  // namespace

void add_compare(CLI::App& app, Context& context) {
  auto options = std::make_shared<CompareOptions>();
  CLI::App* command = app.add_subcommand(
      "compare", "Compare a report with baselines, cell by cell; the exit code is for a CI gate");
  command
      ->add_option(
          "REPORT", options->reports,
          "One or more baselines, and last the report to compare; - is standard input. Of a folder of baselines it takes "
          "those of the machine of that report: FOLDER/MACHINE.json and FOLDER/MACHINE/*.json, the newest 10 (assay env "
          "--fingerprint prints MACHINE)")
      ->expected(2, -1)
      ->required();
  add_filter(*command, options->filter);
  options->verdict.add(*command, context);
  command
      ->add_option(
          "--detect", options->detect,
          "Change that a cell must be able to show to be the same: where it would be found in fewer than four of "
          "five comparisons, the cell is inconclusive [twice --threshold]")
      ->type_name("CHANGE");
  command
      ->add_option(
          "--calibration", options->calibration,
          "File that assay calibrate wrote, or none [the calibration of the machine, if there is one]")
      ->type_name("FILE");
  CLI::Option* allow =
      command
          ->add_option("--allow", options->allow,
                       fmt::format("Findings that do not fail the comparison: {}; libraries:NAME "
                                   "for those of one backend, or one library",
                                   list_of_words<Overlooked>()))
          ->delimiter(',')
          ->type_name("WHAT,...");
  context.choices[allow].assign(word_texts<Overlooked>.begin(), word_texts<Overlooked>.end());
  add_examples(*command, {"assay compare reports/mlp.json reports/new.json --threshold 10%",
                          "assay compare ~/baselines reports/new.json"});
  command->callback(
      [options, &context] { context.action = [options] { return compare_reports(*options); }; });
}

}  // namespace assay::cli
