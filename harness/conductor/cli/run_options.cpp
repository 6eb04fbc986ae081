#include "harness/conductor/cli/run_options.hpp"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "harness/conductor/cli/command_io.hpp"
#include "harness/conductor/print/report_tables.hpp"
#include "harness/core/text.hpp"
#include "harness/machine/cores.hpp"
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

namespace {

// A config looks like data and may come from anybody: only who types the command says what is executed.
void refuse_programs(const RunConfig& config, const OptionValues& given, std::string_view where) {
  const std::vector<std::string> named = list_of(config.values, "interpreter");
  if (named.empty() || given.contains("interpreter")) return;
  throw ConfigError(fmt::format(
      "{}: \"interpreter\" names a program, which a config may not: give it on the command line if you "
      "trust it, --interpreter {}",
      where, one_line(named.front())));
}

}  // namespace

RunRequest RunOptions::request(const std::vector<std::string>& command_line) const {
  RunRequest request;
  const OptionValues given = table_.values();
  if (!resume.empty()) request.resume = load_report(resume);
  if (!config_.empty()) {
    request.config = read_config(find_config(config_));
    refuse_programs(request.config, given, config_);
    request.config.override_with(given);
  } else if (request.resume && request.resume->run.contains("config") &&
             request.resume->run["config"].is_object()) {
    request.config = config_from_json(request.resume->run["config"], resume);
    refuse_programs(request.config, given, resume);
    request.config.override_with(given);
  } else if (!given.contains("workload")) {
    throw UsageError(
        "nothing says what to run: name a config (assay list configs), or --workload NAME (assay list "
        "workloads)");
  } else {
    request.config = config_of(given);
  }
  for (const std::string& folder : list_of(request.config.values, "data"))
    if (!std::filesystem::is_directory(folder))
      throw UsageError(fmt::format("[data] got '{}': there is no such folder", folder));
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
  std::vector<std::string> frameworks;
  for (const BackendDescription& backend : found.backends)
    if (!backend.framework.empty() && !contains(frameworks, backend.framework))
      frameworks.push_back(backend.framework);
  for (const auto& [framework, path] : interpreters)
    if (!contains(frameworks, framework))
      throw UsageError(fmt::format("[interpreter] got '{}': it is no framework of a backend{}", framework,
                                   suggestion(framework, frameworks)));
  for (const auto& [name, modes] : config.awaits) await_backend(found, name, modes);
  return found;
}

namespace {

// Warm-up and timed blocks of one fork, at least; 0 where the work sets the time.
double min_seconds(const MeasurePlan& plan) {
  if (plan.epochs > 0 || plan.steps > 0) return 0;
  return plan.warm_up_seconds + static_cast<double>(plan.blocks) * plan.block_seconds;
}

std::string forks_text(const std::vector<Cell>& cells, std::size_t runnable, const RunSettings& settings) {
  const std::size_t forks = runnable * static_cast<std::size_t>(settings.forks);
  double seconds = 0;
  for (const Cell& cell : cells)
    if (cell.runnable()) seconds += settings.forks * min_seconds(cell.measure);
  return fmt::format("{} of {} cells can be run, {} fork{} each: {} forks.{}", runnable, cells.size(),
                     settings.forks, settings.forks == 1 ? "" : "s", forks,
                     seconds > 0
                         ? fmt::format(" Warm-up and timed blocks alone take {}; starting, compiling and "
                                       "checking come on top.",
                                       duration_text(seconds))
                         : "");
}

}  // namespace

std::vector<std::string> doubts_about(const std::vector<Cell>& cells) {
  int most = 0;
  for (const Cell& cell : cells) most = std::max(most, cell.runnable() ? cell.axes.all_threads() : 0);
  const std::size_t here = usable_cores().size();
  if (static_cast<std::size_t>(most) <= here) return {};
  return {
      fmt::format("{} threads share the {} processors that this program may use: their numbers are those of "
                  "an overloaded machine.",
                  most, here)};
}

int print_plan(const Expansion& expansion, const BackendRegistry& registry, const RunSettings& settings,
               bool check_alone) {
  const std::vector<Cell>& cells = expansion.cells;
  Table table{.title = {}, .columns = {{"cell"}, {"status"}}, .rows = {}, .notes = {}};
  std::size_t runnable = 0;
  for (const Cell& cell : cells) {
    runnable += cell.runnable();
    table.rows.push_back({{cell.id}, {cell.runnable() ? "to run" : std::string(to_string(cell.status))}});
    if (!cell.runnable()) table.notes.push_back(fmt::format("{}: {}", cell.id, cell.reason));
  }
  for (const std::string& program : programs_of(cells, registry)) table.notes.push_back("starts " + program);
  for (const std::string& left_out : expansion.left_out) table.notes.push_back(left_out + ".");
  for (std::string& doubt : doubts_about(cells)) table.notes.push_back(std::move(doubt));
  table.notes.push_back(check_alone ? fmt::format("{} of {} cells can be checked.", runnable, cells.size())
                                    : forks_text(cells, runnable, settings));
  print({table});
  return runnable > 0 ? fine : incomplete;
}

}  // namespace assay::cli
