#include "harness/conductor/cli/run_options.hpp"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "harness/conductor/cli/command_io.hpp"
#include "harness/conductor/print/report_tables.hpp"
#include "harness/machine/environment.hpp"

namespace assay::cli {

void RunOptions::add(CLI::App& command, bool resumable) {
  command.add_option("CONFIG", config_,
                     "A config by its name or file (assay list configs); without one the axes say what");
  command.add_option("--filter", filter_, "Only cells whose id holds one of these texts")
      ->type_name("TEXT,...");
  if (resumable)
    command.add_option("--resume", resume, "Keep what this report has and measure what is missing")
        ->type_name("REPORT");
  command.add_flag("--keep-folders", keep_folders_,
                   "Leave the workers' folders where they are, to look for a fault");
  table_.add_all(command);
}

RunRequest RunOptions::request(const std::vector<std::string>& command_line) const {
  RunRequest request;
  const OptionValues given = table_.values();
  if (!resume.empty()) request.resume = load_report(resume);
  if (!config_.empty()) {
    request.config = read_config(find_config(config_));
    request.config.override_with(given);
  } else if (request.resume && request.resume->run.contains("config") &&
             request.resume->run["config"].is_object()) {
    request.config = config_from_json(request.resume->run["config"], resume);
    request.config.override_with(given);
  } else if (!given.contains("workload")) {
    throw UsageError(
        "nothing says what to run: name a config (assay list configs), or --workload NAME (assay list "
        "workloads)");
  } else {
    request.config = config_of(given);
  }
  request.command_line = command_line;
  request.environment = environment();
  request.filter = filter_;
  request.keep_folders = keep_folders_;
  return request;
}

BackendRegistry RunOptions::registry(const RunConfig& config,
                                     const std::vector<std::filesystem::path>& folders) const {
  const Interpreters interpreters = parse_interpreters(list_of(config.values, "interpreter"));
  BackendRegistry found =
      folders.empty() ? find_backends(interpreters) : find_backends_in(folders, interpreters);
  for (const std::string& fault : found.faults) warn(fault);
  for (const auto& [name, modes] : config.awaits) await_backend(found, name, modes);
  return found;
}

void print_plan(const Expansion& expansion, const RunSettings& settings, bool check_alone) {
  const std::vector<Cell>& cells = expansion.cells;
  Table table{.title = {}, .columns = {{"cell"}, {"status"}}, .rows = {}, .notes = {}};
  std::size_t runnable = 0;
  for (const Cell& cell : cells) {
    runnable += cell.runnable();
    table.rows.push_back({{cell.id}, {cell.runnable() ? "to run" : std::string(to_string(cell.status))}});
    if (!cell.runnable()) table.notes.push_back(fmt::format("{}: {}", cell.id, cell.reason));
  }
  for (const std::string& left_out : expansion.left_out) table.notes.push_back(left_out + ".");
  table.notes.push_back(check_alone ? fmt::format("{} of {} cells can be checked.", runnable, cells.size())
                                    : fmt::format("{} of {} cells can be run, {} forks each: {} forks.",
                                                  runnable, cells.size(), settings.forks,
                                                  runnable * static_cast<std::size_t>(settings.forks)));
  print({table});
}

}  // namespace assay::cli
