// assay check: only the equivalence check, tensor by tensor.
#include <memory>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "harness/conductor/cli/command_io.hpp"
#include "harness/conductor/cli/commands/commands.hpp"
#include "harness/conductor/cli/exit_code.hpp"
#include "harness/conductor/cli/run_options.hpp"
#include "harness/conductor/print/report_tables.hpp"
#include "harness/conductor/run/run.hpp"
#include "harness/core/io/atomic_file.hpp"
#include "harness/report/report_json.hpp"

namespace assay::cli {
namespace {

struct CheckOptions {
  RunOptions run;
  bool dry_run = false, json = false;
};

int check(const CheckOptions& options, const Context& context) {
  RunRequest request = options.run.request(context.command_line);
  request.check_only = true;
  if (options.run.out != "-") request.out = options.run.out;
  const Registries registries = options.run.registries(request.config);
  Expansion expansion = cells_of(request, registries);
  const RunSettings settings = settings_of(request.config);
  if (options.dry_run) return print_plan(expansion, registries.backends, settings, true);
  for (const std::string& doubt : doubts_about(expansion.cells, settings)) warn(doubt);
  Progress progress = Progress::on_stderr();
  if (!request.out.empty()) make_folder_of(request.out);
  const RunOutcome outcome = run(request, std::move(expansion), registries, progress);
  if (options.json || options.run.out == "-") {
    print(report_text(outcome.report));
  } else {
    std::vector<Table> tables;
    for (const CellReport& cell : outcome.report.cells) tables.push_back(equivalence_table(cell));
    print(tables);
  }
  return outcome.signal == 0 && outcome.complete() ? fine : incomplete;
}

}  // namespace

void add_check(CLI::App& app, Context& context) {
  auto options = std::make_shared<CheckOptions>();
  CLI::App* command = app.add_subcommand("check", "Run only the equivalence check, tensor by tensor");
  command->add_option("--out", options->run.out, "Also write a report; - is stdout")->type_name("REPORT");
  command->add_flag("--json", options->json, "Print the report instead of tables");
  command->add_flag("--dry-run", options->dry_run, "List the cells; check nothing");
  options->run.add(*command);
  add_examples(*command, {"assay check --workload lenet5 --backend torch --mode eager"});
  command->callback(
      [options, &context] { context.action = [options, &context] { return check(*options, context); }; });
}

}  // namespace assay::cli
