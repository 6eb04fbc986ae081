// assay calibrate: how noisy this machine is, from runs of one build against itself.
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "harness/conductor/cli/command_io.hpp"
#include "harness/conductor/cli/commands/commands.hpp"
#include "harness/conductor/cli/run_options.hpp"
#include "harness/conductor/cli/verdict_options.hpp"
#include "harness/conductor/compare/calibration.hpp"
#include "harness/conductor/run/run.hpp"
#include "harness/core/io/atomic_file.hpp"
#include "harness/core/json/strict_json.hpp"

namespace assay::cli {
namespace {

namespace fs = std::filesystem;

struct CalibrateOptions {
  RunOptions run;
  std::vector<std::string> reports;
  std::string threshold = as_percent(usual_threshold), confidence = as_percent(usual_confidence), metric;
  int runs = 5;
  bool json = false;
};

// One after another, each in shuffled rounds of its own: what a baseline and a later report differ by.
std::vector<Report> measure(const CalibrateOptions& options, const Context& context, int& signal) {
  RunRequest request = options.run.request(context.command_line);
  if (!request.config.values.contains("forks")) request.config.values["forks"] = {"6"};
  if (settings_of(request.config).forks < 2)
    throw UsageError("calibrate: one fork says nothing of what forks differ by: --forks 2 or more");
  const BackendRegistry registry = options.run.registry(request.config);
  Progress progress = Progress::on_stderr();
  std::vector<Report> reports;
  for (int i = 0; i < options.runs && signal == 0; ++i) {
    progress.note(fmt::format("run {} of {}", i + 1, options.runs));
    RunOutcome outcome = run(request, registry, progress);
    signal = outcome.signal;
    if (signal == 0) reports.push_back(std::move(outcome.report));
  }
  return reports;
}

int calibrate_machine(const CalibrateOptions& options, const Context& context) {
  CalibrationSettings settings;
  settings.threshold = share(options.threshold, "--threshold", 10);
  settings.confidence = share(options.confidence, "--confidence", 1);
  settings.metric = options.metric;
  int signal = 0;
  std::vector<Report> reports;
  if (options.reports.empty())
    reports = measure(options, context, signal);
  else
    for (const std::string& file : options.reports) reports.push_back(load_report(file));
  if (signal != 0) return incomplete;
  const Calibration calibration = calibrate(reports, settings);
  if (calibration.fingerprint.empty() && options.run.out.empty())
    throw UsageError("calibrate: this machine does not say which processor it has: --out says where to");
  const fs::path out =
      options.run.out.empty() ? calibration_place(calibration.fingerprint) : fs::path(options.run.out);
  const std::string text = strict_json_text(to_json(calibration));
  if (out == "-") {
    print(text);
    return fine;
  }
  if (out.has_parent_path()) fs::create_directories(out.parent_path());
  write_atomically(out, text);
  if (options.json)
    print(text);
  else
    print({calibration_table(calibration)});
  warn(fmt::format("the calibration is in {}", out.string()));
  return fine;
}

}  // namespace

void add_calibrate(CLI::App& app, Context& context) {
  auto options = std::make_shared<CalibrateOptions>();
  CLI::App* command = app.add_subcommand(
      "calibrate", "This machine's noise floor, from runs of one build against itself; compare reads it");
  command->add_option("--runs", options->runs, "Runs, one after another, of --forks forks each [5]")
      ->check(CLI::Range(2, 1000));
  command
      ->add_option("--from", options->reports,
                   "Measure nothing: take these reports of one build on one machine")
      ->type_name("REPORT");
  command->add_option("--threshold", options->threshold, "The change that is to be seen [5%]");
  command->add_option("--confidence", options->confidence, "As compare takes it [95%]");
  command->add_option("--metric", options->metric, "What is looked at; without it what compare judges");
  command
      ->add_option("--out", options->run.out,
                   "Where the calibration goes; - is stdout "
                   "[${ASSAY_CACHE:-~/.cache/assay}/calibrations/<machine>.json]")
      ->type_name("FILE");
  command->add_flag("--json", options->json, "The calibration instead of a table");
  options->run.add(*command, false);
  command->callback([options, &context] {
    context.action = [options, &context] { return calibrate_machine(*options, context); };
  });
}

}  // namespace assay::cli
