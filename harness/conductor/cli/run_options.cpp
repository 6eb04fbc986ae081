#include "harness/conductor/cli/run_options.hpp"

#include <utility>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "harness/conductor/cli/command_io.hpp"
#include "harness/conductor/cli/commands/commands.hpp"
#include "harness/conductor/cli/exit_code.hpp"
#include "harness/conductor/config/worker_variables.hpp"
#include "harness/conductor/fork/oracle_need.hpp"
#include "harness/conductor/print/report_tables.hpp"
#include "harness/core/text.hpp"
#include "harness/machine/cores.hpp"
#include "harness/machine/environment.hpp"
#include "harness/machine/memory.hpp"

namespace assay::cli {

void RunOptions::add(CLI::App& command, bool resumable) {
  command.add_option("CONFIG", config_,
                     "Name or file of a config (assay list configs) (default: the axes on the command line)");
  add_filter(command, filter_);
  command
      .add_option("--inputs", inputs_,
                  "Samples of your own, u8 or f32 (N, ...) in C order, instead of a data set; with --labels")
      ->type_name("FILE.npy");
  command
      .add_option("--labels", labels_, "Labels of these samples: whole numbers from 0, (N) or (N, positions)")
      ->type_name("FILE.npy");
  if (resumable)
    command.add_option("--resume", resume, "Keep the cells of this report and measure only the missing ones")
        ->type_name("REPORT");
  command.add_flag("--keep-folders", keep_folders_, "Do not delete the workers' folders, to debug a failure");
  table_.add_all(command);
}

namespace {

// A config may come from an untrusted source: only the command line may choose programs and libraries to execute.
void reject_variables(const RunConfig& config, const OptionValues& given, std::string_view where) {
  if (given.contains("environment")) return;
  for (const std::string& item : list_of(config.values, "environment"))
    if (!may_be_in_config(std::string_view(item).substr(0, item.find('='))))
      throw ConfigError(fmt::format(
          "{}: \"environment\" sets {}, which may make a worker execute a file, so a config must not do it; if you trust "
          "it, add --environment {} to the command line",
          where, one_line(item.substr(0, item.find('=')), 100), one_line(shell_word(item))));
}

void reject_programs(const RunConfig& config, const OptionValues& given, std::string_view where) {
  reject_variables(config, given, where);
  const std::vector<std::string> named = list_of(config.values, "interpreter");
  if (named.empty() || given.contains("interpreter")) return;
  throw ConfigError(fmt::format(
      "{}: \"interpreter\" names a program, which a config must not do; if you trust the program, add "
      "--interpreter {} to the command line",
      where, one_line(named.front())));
}

}  // namespace

void RunOptions::name_arrays(OptionValues& given) const {
  if (inputs_.empty() && labels_.empty()) return;
  if (inputs_.empty() || labels_.empty())
    throw UsageError(
        "--inputs and --labels belong together: the samples, and a label for each; for samples without "
        "labels, save np.zeros(len(x), np.int32)");
  for (const auto& [option, file] : {std::pair{"inputs", inputs_}, std::pair{"labels", labels_}}) {
    std::error_code ignored;
    if (!std::filesystem::is_regular_file(file, ignored) || !file.ends_with(".npy"))
      throw UsageError(fmt::format("[{}] got '{}': it {}; save it with np.save()", option, one_line(file),
                                   std::filesystem::exists(file, ignored)
                                       ? "is no file whose name ends with .npy"
                                       : "does not exist"));
  }
  const auto dataset = given.find("dataset");
  if (dataset != given.end() && dataset->second != std::vector<std::string>{"npy"})
    throw UsageError(
        fmt::format("[dataset] got '{}': --inputs and --labels are the data set npy; leave --dataset out",
                    fmt::join(dataset->second, ",")));
  given["dataset"] = {"npy"};
  std::vector<std::string>& data = given["data"];
  data.insert(data.begin(), {inputs_, labels_});
}

RunRequest RunOptions::request(const std::vector<std::string>& command_line) const {
  RunRequest request;
  OptionValues given = table_.values();
  name_arrays(given);
  if (!resume.empty()) request.resume = load_report(resume);
  if (!config_.empty()) {
    request.config = read_config(find_config(config_));
    reject_programs(request.config, given, config_);
    request.config.override_with(given);
  } else if (request.resume && request.resume->run.config.is_object()) {
    request.config = config_from_json(request.resume->run.config, resume);
    reject_programs(request.config, given, resume);
    request.config.override_with(given);
  } else if (!given.contains("workload")) {
    throw UsageError(
        "nothing to run: name a config (assay list configs) or a workload with --workload NAME (assay list "
        "workloads); for a first try: assay run quickstart");
  } else {
    request.config = config_of(given);
  }
  for (const std::string& folder : list_of(request.config.values, "data"))
    if (!std::filesystem::is_directory(folder) && !std::filesystem::is_regular_file(folder))
      throw UsageError(fmt::format("[data] got '{}': {}", folder,
                                   std::filesystem::exists(folder)
                                       ? "it is neither a folder nor a file (a pipe, a socket or a device)"
                                       : "the folder does not exist"));
  request.command_line = command_line;
  request.environment = environment();
  request.filter = filter_;
  request.keep_folders = keep_folders_;
  return request;
}

Registries RunOptions::registries(const RunConfig& config,
                                  const std::vector<std::filesystem::path>& folders) const {
  const Interpreters interpreters = parse_interpreters(list_of(config.values, "interpreter"));
  Registries found;
  add_named_networks(found.workloads, config);
  found.backends = folders.empty() ? find_backends(interpreters) : find_backends_in(folders, interpreters);
  for (const std::string& fault : found.backends.faults) warn(fault);
  std::vector<std::string> frameworks;
  for (const BackendDescription& backend : found.backends.backends)
    if (backend.needs_environment && !contains(frameworks, backend.framework))
      frameworks.push_back(backend.framework);
  for (const auto& [framework, path] : interpreters)
    if (!contains(frameworks, framework))
      throw UsageError(fmt::format("[interpreter] got '{}': no backend uses a framework of that name{}",
                                   framework, suggestion(framework, frameworks)));
  for (const auto& [name, modes] : config.awaits) add_awaited_backend(found.backends, name, modes);
  return found;
}

namespace {

// Minimum seconds of warm-up and timed blocks of one fork; 0 if a number of epochs or steps is given.
double min_seconds(const MeasurePlan& plan) {
  if (plan.epochs > 0 || plan.steps > 0) return 0;
  return plan.warm_up_seconds + static_cast<double>(plan.blocks) * plan.block_seconds;
}

std::string forks_text(const std::vector<Cell>& cells, std::size_t planned, std::size_t runnable,
                       const RunSettings& settings) {
  const std::size_t forks = runnable * static_cast<std::size_t>(settings.forks);
  double seconds = 0;
  for (const Cell& cell : cells)
    if (cell.runnable()) seconds += settings.forks * min_seconds(cell.measure);
  return fmt::format("{} of {} can be run, {} each: {}.{}", runnable, plural(planned, "cell"),
                     plural(settings.forks, "fork"), plural(forks, "fork"),
                     seconds > 0
                         ? fmt::format(" Warm-up and timed blocks take at least {}; starting, compiling and "
                                       "checking take more time.",
                                       duration_text(seconds))
                         : "");
}

}  // namespace

std::vector<std::string> doubts_about(const std::vector<Cell>& cells, const RunSettings& settings) {
  std::vector<std::string> doubts = doubts_about_exams(cells, settings.time_limit, available_memory());
  std::int64_t max_threads = 0;
  for (const Cell& cell : cells)
    if (cell.runnable())  // another launcher may use several machines
      max_threads =
          std::max(max_threads, cell.launcher == Launcher::fork ? cell.axes.threads_of_all_ranks()
                                                                : std::int64_t{cell.axes.all_threads()});
  std::string doubt = overload_text(max_threads, usable_cores().size(), cpu_quota());
  if (!doubt.empty()) doubts.push_back(std::move(doubt));
  return doubts;
}

int print_plan(const Expansion& expansion, const BackendRegistry& backends, const RunSettings& settings,
               bool check_only) {
  const std::vector<Cell>& cells = expansion.cells;
  Table table{.title = {}, .columns = {{"cell"}, {"status"}}, .rows = {}, .notes = {}};
  std::size_t runnable = 0, others = 0;
  for (const Cell& cell : cells) {
    if (cell.reason_code == ReasonCode::other_shard) {
      ++others;
      continue;
    }
    runnable += cell.runnable();
    table.rows.push_back({{cell.id}, {cell.runnable() ? "to run" : std::string(to_string(cell.status))}});
    if (!cell.runnable()) table.notes.push_back(fmt::format("{}: {}", cell.id, cell.reason));
  }
  for (const std::string& program : programs_of(cells, backends)) table.notes.push_back("starts " + program);
  for (const std::string& left_out : expansion.left_out) table.notes.push_back(left_out + ".");
  for (std::string& doubt : doubts_about(cells, settings)) table.notes.push_back(std::move(doubt));
  if (others > 0)
    table.notes.push_back(
        fmt::format("Other shards have {} of all {}.", others, plural(cells.size(), "cell")));
  table.notes.push_back(check_only
                            ? fmt::format("{} of {} can be checked.", runnable, plural(cells.size(), "cell"))
                            : forks_text(cells, cells.size() - others, runnable, settings));
  print({table});
  return runnable > 0 ? fine : incomplete;
}

}  // namespace assay::cli
