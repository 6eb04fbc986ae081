// assay merge: one report of the reports of a run's shards.
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "harness/conductor/cli/command_io.hpp"
#include "harness/conductor/cli/commands/commands.hpp"
#include "harness/conductor/cli/exit_code.hpp"
#include "harness/conductor/print/report_tables.hpp"
#include "harness/conductor/run/progress.hpp"
#include "harness/conductor/run/run.hpp"
#include "harness/core/io/atomic_file.hpp"
#include "harness/report/merge.hpp"
#include "harness/report/report_json.hpp"

namespace assay::cli {
namespace {

namespace fs = std::filesystem;

struct MergeOptions {
  std::vector<std::string> files;
  std::string out;
};

// A merged report in the place of one of its shards would lose that shard.
void reject_overwriting(const MergeOptions& options) {
  std::error_code ignored;
  for (const std::string& file : options.files)
    if (fs::equivalent(file, options.out, ignored))
      throw UsageError(
          fmt::format("merge: --out {} is one of the reports to merge; write to another file", options.out));
}

int merge_reports(const MergeOptions& options, const Context& context) {
  reject_overwriting(options);
  std::vector<MergePart> parts;
  for (const std::string& file : options.files) parts.push_back({file, load_report(file)});
  const RunOutcome outcome{.report = merge(std::move(parts), context.command_line)};
  const std::vector<std::string> lines = merge_notes(outcome.report);
  if (options.out == "-") {
    print(report_text(outcome.report));
    for (const std::string& line : lines) warn(line);
  } else {
    make_folder_of(options.out);
    Journal(options.out).finish(outcome.report);  // refuses a report that a run is writing
    for (const std::string& line : lines) print(line + "\n");
    print(fmt::format("Report: {}\n", options.out));
  }
  return outcome.complete() ? fine : incomplete;
}

}  // namespace

void add_merge(CLI::App& app, Context& context) {
  auto options = std::make_shared<MergeOptions>();
  CLI::App* command =
      app.add_subcommand("merge", "Join the reports of the shards of one run (assay run --shard)");
  command->add_option("REPORT", options->files, "The report of each shard")->required();
  command->add_option("--out", options->out, "File for the joined report; - is stdout")
      ->type_name("REPORT")
      ->required();
  add_examples(*command, {"assay merge shard-1.json shard-2.json --out reports/whole.json"});
  command->callback([options, &context] {
    context.action = [options, &context] { return merge_reports(*options, context); };
  });
}

}  // namespace assay::cli
