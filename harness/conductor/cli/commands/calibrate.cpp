// assay calibrate: measures the noise of this machine with runs of one build against itself.
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "harness/conductor/backends/build_info.hpp"
#include "harness/conductor/cli/command_io.hpp"
#include "harness/conductor/cli/commands/commands.hpp"
#include "harness/conductor/cli/exit_code.hpp"
#include "harness/conductor/cli/run_options.hpp"
#include "harness/conductor/cli/verdict_options.hpp"
#include "harness/conductor/compare/calibration.hpp"
#include "harness/conductor/run/run.hpp"
#include "harness/core/io/atomic_file.hpp"
#include "harness/core/json/strict_json.hpp"
#include "harness/core/text.hpp"
#include "harness/report/environment_difference.hpp"
#include "harness/report/report_json.hpp"

namespace assay::cli {
namespace {

namespace fs = std::filesystem;

struct CalibrateOptions {
  RunOptions run;
  std::vector<std::string> reports;
  std::string threshold = as_percent(usual_threshold), confidence = as_percent(usual_confidence), metric;
  int runs = usual_runs;
  bool append = false, json = false;
};

struct Measured {
  std::vector<Report> reports;
  int signal = 0;  // that ended the measurement; 0: none
};

// The file of the calibration: --out, or the one of this machine. Throws UsageError for a machine without a
// fingerprint.
fs::path place_of(const CalibrateOptions& options, const MachineRecord& machine) {
  if (!options.run.out.empty()) return options.run.out;
  const auto fingerprint = machine_fingerprint(machine);
  if (!fingerprint)
    throw UsageError(
        "calibrate: this machine has no fingerprint: it does not report its processor; name the file with --out");
  return calibration_place(*fingerprint);
}

// The calibration that gets another session; nullopt for the first session.
std::optional<Calibration> earlier(const CalibrateOptions& options, const fs::path& place) {
  std::error_code ignored;
  if (!options.append || !fs::exists(place, ignored)) return std::nullopt;
  return read_calibration(place);
}

// Called before the runs, while the user can still change them.
void require_use_of_runs(const CalibrateOptions& options, const MachineRecord& machine) {
  const auto there = earlier(options, place_of(options, machine));
  if (!there && options.runs < 2)
    throw UsageError("calibrate: one run does not show how runs differ; use --runs 2 or more");
  if (!there) return;
  Report here;
  here.run.commit = build_info().commit;
  here.run.dirty = build_info().dirty;
  here.environment = machine;
  require_same_experiment(*there, here);
}

// Runs one after another, each with its own shuffled rounds, as a baseline and a later report would be
// measured.
Measured measure(const CalibrateOptions& options, const Context& context) {
  const RunRequest request = options.run.request(context.command_line);
  if (settings_of(request.config).forks < 2)
    throw UsageError("calibrate: one fork does not show how forks differ; use --forks 2 or more");
  require_use_of_runs(options, request.environment);
  const Registries registries = options.run.registries(request.config);
  const Expansion cells = cells_of(request, registries);
  Progress progress = Progress::on_stderr();
  Measured measured;
  for (int i = 0; i < options.runs && measured.signal == 0; ++i) {
    progress.note(fmt::format("run {} of {}", i + 1, options.runs));
    progress.start_over();
    RunOutcome outcome = run(request, cells, registries, progress);
    measured.signal = outcome.signal;
    measured.reports.push_back(std::move(outcome.report));
  }
  return measured;
}

Calibration calibration_by(const CalibrateOptions& options, const CalibrationSettings& settings,
                           const std::vector<Report>& reports) {
  const auto before = earlier(options, place_of(options, reports.front().environment));
  return before ? appended(*before, reports, settings) : calibrate(reports, settings);
}

// Writes the reports, so that they are not lost if no calibration can be made of them.
void keep(const std::vector<Report>& reports) {
  const fs::path folder = fs::path("reports") / ("calibrate-" + utc_now_for_file());
  fs::create_directories(folder);
  std::string files;
  for (std::size_t i = 0; i < reports.size(); ++i) {
    const fs::path file = folder / fmt::format("{}.json", i + 1);
    write_atomically(file, report_text(reports[i]));
    files += " " + file.string();
  }
  warn("the runs are kept: assay calibrate --from" + files);
}

int write_calibration(const CalibrateOptions& options, const Calibration& calibration, const fs::path& out) {
  const std::string text = strict_json_text(to_json(calibration));
  if (out == "-") {
    print(text);
    return fine;
  }
  make_folder_of(out);
  write_atomically(out, text);
  if (options.json)
    print(text);
  else
    print({calibration_table(calibration)});
  warn(fmt::format("the calibration is in {}", out.string()));
  return fine;
}

int calibrate_machine(const CalibrateOptions& options, const Context& context) {
  if (options.append && options.run.out == "-")
    throw UsageError(
        "calibrate: --append needs a file, and --out - is standard output; name a file with --out");
  CalibrationSettings settings;
  settings.threshold = share_of(options.threshold, "--threshold", max_threshold);
  settings.confidence = share_of(options.confidence, "--confidence", max_confidence);
  settings.metric = options.metric;
  if (!options.reports.empty()) {
    std::vector<Report> reports;
    for (const std::string& file : options.reports) {
      reports.push_back(load_report(file));
      if (!reports.back().environments.empty())
        throw UsageError(fmt::format(
            "calibrate: {} is a merged report, and a calibration is of one machine; give it reports of assay run",
            file));
    }
    const Calibration calibration = calibration_by(options, settings, reports);
    return write_calibration(options, calibration, place_of(options, reports.front().environment));
  }
  const Measured measured = measure(options, context);
  if (measured.signal != 0) {
    keep(measured.reports);
    return incomplete;
  }
  try {
    const Calibration calibration = calibration_by(options, settings, measured.reports);
    return write_calibration(options, calibration, place_of(options, measured.reports.front().environment));
  } catch (const ConfigError& error) {
    warn(error.what());
    keep(measured.reports);
    return incomplete;
  }
}

}  // namespace

void add_calibrate(CLI::App& app, Context& context) {
  auto options = std::make_shared<CalibrateOptions>();
  CLI::App* command = app.add_subcommand(
      "calibrate",
      "Measure the noise of this machine with runs of one build against itself; compare reads the result");
  command
      ->add_option(
          "--runs", options->runs,
          fmt::format(
              "Number of runs, one after another, of --forks forks each; 1 is enough with --append [{}]",
              usual_runs))
      ->check(CLI::Range(1, 1000));
  command->add_flag(
      "--append", options->append,
      "Add a session to the existing calibration: runs at another hour or day, by the same build on the "
      "same machine. Without a calibration it becomes the first session");
  command
      ->add_option("--from", options->reports,
                   "Do not measure: use these reports of one build on one machine")
      ->type_name("REPORT");
  command->add_option("--threshold", options->threshold,
                      fmt::format("The change to detect [{}]", options->threshold));
  command->add_option("--confidence", options->confidence,
                      fmt::format("Confidence of compare [{}]", options->confidence));
  command->add_option("--metric", options->metric,
                      "Metric to calibrate (default: the metric that compare uses)");
  command
      ->add_option("--out", options->run.out,
                   "File for the calibration; - is stdout "
                   "[${ASSAY_CACHE:-~/.cache/assay}/calibrations/MACHINE.json]")
      ->type_name("FILE");
  command->add_flag("--json", options->json, "Print the calibration instead of a table");
  options->run.add(*command, false);
  add_examples(*command, {"assay calibrate --workload mlp --backend onednn"});
  command->callback([options, &context] {
    context.action = [options, &context] { return calibrate_machine(*options, context); };
  });
}

}  // namespace assay::cli
