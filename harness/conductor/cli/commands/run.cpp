// assay run: measures, writes the report and shows the table.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "harness/conductor/cli/command_io.hpp"
#include "harness/conductor/cli/commands/commands.hpp"
#include "harness/conductor/cli/exit_code.hpp"
#include "harness/conductor/cli/run_options.hpp"
#include "harness/conductor/cli/verdict_options.hpp"
#include "harness/conductor/compare/time_decision.hpp"
#include "harness/conductor/print/printers.hpp"
#include "harness/conductor/print/report_tables.hpp"
#include "harness/conductor/run/report_copy.hpp"
#include "harness/conductor/run/run.hpp"
#include "harness/conductor/run/shard.hpp"
#include "harness/core/error.hpp"
#include "harness/core/io/atomic_file.hpp"
#include "harness/core/text.hpp"
#include "harness/report/report_json.hpp"

namespace assay::cli {
namespace {

namespace fs = std::filesystem;

struct RunCommandOptions {
  RunOptions run;
  std::string shard;
  bool dry_run = false;
};

// reports/NAME-TIME.json, in the working directory; of a shard reports/NAME-shard-2-of-4-TIME.json.
fs::path default_report(const RunConfig& config, const std::optional<Shard>& shard) {
  std::string name = config.name;
  if (name.empty()) {
    const auto workloads = list_of(config.values, "workload");
    name = workloads.empty() ? "run" : workloads.front();
  }
  for (char& c : name)
    if (c == '/') c = '-';
  if (shard) name += fmt::format("-shard-{}-of-{}", shard->index, shard->count);
  return fs::path("reports") / fmt::format("{}-{}.json", name, utc_now_for_file());
}

// The outermost folder that would be made for the file, or the file itself.
fs::path first_missing(fs::path file) {
  while (file.has_parent_path() && !fs::exists(file.parent_path())) file = file.parent_path();
  return file;
}

// A device (such as /dev/full) gets the report only at the end, too late to find out that it is full, so
// write a line feed now. Readers of JSON ignore it.
void require_room(const fs::path& out) {
  std::error_code error;
  if (!fs::exists(out, error) || !fs::is_character_file(out, error)) return;
  std::FILE* file = std::fopen(out.c_str(), "w");
  const bool taken = file && std::fputc('\n', file) != EOF && std::fflush(file) == 0;
  const int reason = errno;
  if (file) std::fclose(file);
  if (!taken) throw IoError("run", out, "cannot be written", reason);
}

// Warns before the run if the report would have too few forks for a verdict.
std::string too_few_forks(const Expansion& expansion, const RunSettings& settings) {
  constexpr int needed = 3;  // with two, one disturbed fork is half of them
  const bool any = std::ranges::any_of(expansion.cells, [](const Cell& cell) {
    return cell.runnable() || cell.reason_code == ReasonCode::other_shard;
  });
  if (settings.quick || settings.until == Until::clear || settings.forks == 0 || !any) return {};
  if (settings.forks >= needed) return {};
  return fmt::format(
      "note: {} per cell {} too few for a verdict of `assay compare`: it needs at least {}, and 6 are usual (--forks 6)",
      plural(settings.forks, "fork"), settings.forks == 1 ? "is" : "are", needed);
}

// If the report cannot be printed, keeps it in a file, as for a report that cannot be written.
void print_report(const std::string& text) {
  try {
    print(text);
  } catch (const std::runtime_error&) {
    const fs::path copy = ReportCopy().keep(text);
    if (!copy.empty())
      warn("standard output cannot be written; the report is in " + copy.string() + " instead");
    throw;
  }
}

int run_cells(const RunCommandOptions& options, const Context& context) {
  RunRequest request = options.run.request(context.command_line);
  if (!options.shard.empty())
    request.shard = parse_shard(options.shard);
  else if (request.resume)
    request.shard = request.resume->run.shard;
  const Registries registries = options.run.registries(request.config);
  Expansion expansion = cells_of(request, registries);  // rejects bad input before a folder is made
  const bool to_stdout = options.run.out == "-";
  if (options.dry_run) {
    if (!to_stdout && !options.run.out.empty()) require_writable(first_missing(options.run.out));
    return print_plan(expansion, registries.backends, settings_of(request.config), false);
  }
  for (const std::string& doubt : doubts_about(expansion.cells, settings_of(request.config))) warn(doubt);
  if (!to_stdout) {
    request.out = !options.run.out.empty()      ? fs::path(options.run.out)
                  : !options.run.resume.empty() ? fs::path(options.run.resume)
                                                : default_report(request.config, request.shard);
    make_folder_of(request.out);
    require_room(request.out);
  }
  if (const std::string few = too_few_forks(expansion, settings_of(request.config)); !few.empty()) warn(few);
  Progress progress = Progress::on_stderr();
  const RunOutcome outcome = run(request, std::move(expansion), registries, progress);

  // If the report goes to stdout, human text goes to stderr.
  if (to_stdout) {
    print_report(report_text(outcome.report));
    const std::string text = console(summary(outcome.report), console_style(STDERR_FILENO));
    std::fwrite(text.data(), 1, text.size(), stderr);
  } else {
    try {
      print(summary(outcome.report));
      print(fmt::format("\nReport: {}\n", request.out.string()));
    } catch (const std::runtime_error& error) {
      warn(fmt::format("{}; the report itself was written: {}", error.what(), request.out.string()));
    }
  }
  return outcome.signal == 0 && outcome.complete() ? fine : incomplete;
}

}  // namespace

void add_run(CLI::App& app, Context& context) {
  auto options = std::make_shared<RunCommandOptions>();
  CLI::App* command =
      app.add_subcommand("run", "Measure cells, check each against the oracle, and write a report");
  command->add_option("--out", options->run.out, "File for the report; - is stdout [reports/NAME-TIME.json]")
      ->type_name("REPORT");
  command->get_option("--out")->check(
      [](const std::string& path) { return path.empty() ? "the file name of the report is empty" : ""; });
  CLI::Option* shard = command->add_option(
      "--shard", options->shard,
      "Only part I of N of the run, for assay merge; slurm: the task of the job array [the whole run]");
  shard->type_name("I/N|slurm");
  context.choices[shard] = {"slurm"};
  command->add_flag("--dry-run", options->dry_run, "List the cells and the programs to start; run nothing");
  options->run.add(*command);
  add_examples(*command, {"assay run --workload lenet5 --backend onednn,torch --out reports/lenet5.json",
                          "assay run --workload mlp --quick", "assay run quickstart --max-time 5m"});
  command->callback(
      [options, &context] { context.action = [options, &context] { return run_cells(*options, context); }; });
}

}  // namespace assay::cli
