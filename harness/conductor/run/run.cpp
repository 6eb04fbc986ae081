#include "harness/conductor/run/run.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "harness/conductor/config/devices.hpp"
#include "harness/conductor/data/dataset.hpp"
#include "harness/conductor/data/preparation.hpp"
#include "harness/conductor/fork/original_model.hpp"
#include "harness/conductor/fork/published_weights.hpp"
#include "harness/conductor/fork/worker_plan.hpp"
#include "harness/conductor/process/interrupts.hpp"
#include "harness/conductor/process/survivors.hpp"
#include "harness/conductor/run/best_mode.hpp"
#include "harness/conductor/run/best_search.hpp"
#include "harness/conductor/run/measurement.hpp"
#include "harness/conductor/run/pace.hpp"
#include "harness/conductor/run/rounds.hpp"
#include "harness/conductor/run/shard.hpp"
#include "harness/core/clock.hpp"
#include "harness/core/error.hpp"
#include "harness/core/paths.hpp"
#include "harness/core/text.hpp"
#include "harness/machine/environment.hpp"
#include "harness/report/analysis.hpp"

namespace assay {

bool RunOutcome::complete() const {
  return std::all_of(report.cells.begin(), report.cells.end(), [](const CellReport& cell) {
    return cell.status == Status::ok || cell.reason_code == ReasonCode::other_shard;
  });
}

namespace {

void mark_missing_data(std::vector<Cell>& cells, const RunSettings& settings) {
  const std::vector<std::filesystem::path> folders = dataset_folders(settings.data);
  for (Cell& cell : cells) {
    if (!cell.runnable() || !cell.reads_dataset()) continue;
    std::string missing = why_missing(find_dataset(cell.axes.dataset), folders);
    if (!missing.empty()) end_with(cell, ReasonCode::dataset_missing, std::move(missing));
  }
}

// A file that nothing reads was meant for a data set that no cell has.
void reject_unread_files(const std::vector<Cell>& cells, const RunSettings& settings) {
  std::set<std::string> names;
  for (const Cell& cell : cells) names.insert(cell.axes.dataset);
  const std::vector<std::filesystem::path> unread = unread_files(settings.data, names);
  if (unread.empty()) return;
  const bool is_array = unread.front().extension() == ".npy";
  const bool is_of_cells = names.contains(is_array ? "npy" : "text");
  throw ConfigError(fmt::format(
      "[data] got '{}': no cell reads this file; {}", unread.front().string(),
      is_of_cells ? "the data set has another one, and reads one of each kind"
      : is_array  ? "name arrays with --inputs FILE.npy --labels FILE.npy"
                  : "a text needs --dataset text and a network of texts, such as --workload nanogpt"));
}

void mark_unloadable(std::vector<Cell>& cells) {
  for (Cell& cell : cells) {
    if (!cell.runnable()) continue;
    std::string why = why_code_is_not_loaded(cell, may_execute_in);
    if (!why.empty()) end_with(cell, ReasonCode::folder_not_executable, std::move(why));
  }
}

void keep_wanted(std::vector<Cell>& cells, const RunRequest& request) {
  std::vector<std::string> ids;
  for (const Cell& cell : cells) ids.push_back(cell.id);
  // The search of --mode best was for all of its texts; the modes that it left out match nothing any more.
  if (request.best.empty()) check_filter(request.filter, ids, "run");
  std::erase_if(cells, [&](const Cell& cell) { return !is_wanted(cell.id, request.filter); });
  if (cells.empty())
    throw ConfigError(fmt::format(
        "[filter] got '{}': no cell has it in its id; list the cells with --dry-run", request.filter));
}

// The search of --mode best makes other cells on each machine.
void cut(std::vector<Cell>& cells, const RunRequest& request) {
  if (seeks_best(request.config))
    throw ConfigError(
        "[shard] --mode best chooses modes on each machine by itself, so its shards could not be merged; name the "
        "modes with --mode");
  for (const ConfigRow& row : request.config.rows) {
    if (contains(list_of(row_values(request.config, row), "device"), machines_device))
      throw ConfigError(
          "[shard] --device auto may be another device on each machine, so its shards could not be merged; name the "
          "device");
  }
  keep_shard(cells, *request.shard);
}

}  // namespace

Expansion cells_of(const RunRequest& request, const Registries& registries) {
  Expansion expansion = expand(request.config, registries);
  const RunSettings settings = settings_of(request.config);
  reject_unread_files(expansion.cells, settings);
  if (!request.filter.empty()) keep_wanted(expansion.cells, request);
  if (!request.check_only && settings.forks == 0 && settings.until == Until::forks &&
      seeks_best(request.config))
    throw ConfigError(
        "[forks] --forks 0 runs nothing, and --mode best has to run the modes to choose one; name the modes with "
        "--mode, or use --forks 1 or more");
  // Before a folder is made. The measurement reads them again.
  const auto weights = initial_weights(settings, expansion.cells, registries.workloads);
  mark_without_original(expansion.cells, weights ? &*weights : nullptr);
  if (!request.check_only && settings.forks > 0) mark_missing_data(expansion.cells, settings);
  mark_unloadable(expansion.cells);
  if (request.shard) cut(expansion.cells, request);
  return expansion;
}

std::vector<std::string> programs_of(const std::vector<Cell>& cells, const BackendRegistry& registry) {
  std::vector<std::string> programs;
  const auto add = [&](const BackendDescription& backend) {
    std::string line;
    for (const std::string& part : backend.command) line += (line.empty() ? "" : " ") + shell_word(part);
    if (!contains(programs, line)) programs.push_back(std::move(line));
  };
  bool checked = false;
  for (const Cell& cell : cells) {
    if (!cell.runnable()) continue;
    add(*cell.backend);
    checked = checked || cell.check;
  }
  if (const BackendDescription* oracle = registry.oracle(); checked && oracle != nullptr) add(*oracle);
  return programs;
}

namespace {

// The request with the chosen mode and layout of each backend instead of `best`. Takes at most half of --max-time.
RunRequest find_best(RunRequest request, const Registries& registries, Progress& progress,
                     const Interrupts& interrupts, Pace::Clock::time_point begin) {
  RunRequest trial;
  trial.config = trial_of(request.config);
  trial.environment = request.environment;
  trial.trial_of = request.out;
  trial.filter = request.filter;
  Measurement measurement(trial, cells_of(trial, registries), registries, progress, interrupts);
  measurement.prepare();
  const std::vector<Cell>& cells = measurement.cells();
  Pace pace(measurement.settings().max_seconds / 2, begin);
  BestSearch search(cells, measurement.settings());
  const auto candidates =
      std::ranges::count_if(cells, [](const Cell& cell) { return cell.candidate && cell.runnable(); });
  progress.note(fmt::format("choosing among {} (modes and layouts), in shuffled rounds",
                            plural(candidates, "candidate")));
  int done = 0;
  while (interrupts.signal() == 0) {
    const std::vector<PlannedFork> forks = search.next(measurement.report());
    if (forks.empty() || !pace.can_begin(forks, Pace::Clock::now())) break;
    progress.plan(done + static_cast<int>(forks.size()));
    for (const PlannedFork& fork : forks) {
      if (interrupts.signal() != 0) break;
      if (search.is_finalist(fork.cell)) measurement.check(fork.cell);
      if (!measurement.wanted(fork)) continue;
      const Pace::Clock::time_point start = Pace::Clock::now();
      measurement.time(fork);
      pace.took(fork.cell, seconds_since(start));
      ++done;
    }
  }
  const Report report = measurement.finish(interrupts.signal() != 0);
  const BestTrial found(cells, report);
  BestMemory().keep(found);
  request.best = best_of(found);
  request.config = with_best(request.config, found);
  progress.start_over();
  return request;
}

// The undisturbed rounds of a ranking.
int wanted_rounds(const RunSettings& settings) {
  const int enough = static_cast<int>(rounds_for_interval);
  return settings.until == Until::clear ? enough : std::min(enough, settings.forks);
}

// Workers inherit it.
void note_scheduling(Progress& progress) {
  const std::string found = unusual_scheduling();
  if (!found.empty())
    progress.note(
        fmt::format("this process has {}, and so have its workers: their times are not the usual ones; "
                    "start it without nice, chrt and numactl",
                    found));
}

RunOutcome run_cells(const RunRequest& request, Expansion expansion, const Registries& registries,
                     Progress& progress, const Interrupts& interrupts, Pace::Clock::time_point begin) {
  Measurement measurement(request, std::move(expansion), registries, progress, interrupts);
  measurement.prepare();
  Pace pace(measurement.settings().max_seconds, begin);
  if (pace.end() && !request.check_only) measurement.end_at(*pace.end());
  measurement.allow_fewer_threads();
  const std::vector<Cell>& cells = measurement.cells();
  const RunSettings& settings = measurement.settings();
  const auto stopped = [&] { return interrupts.signal() != 0; };
  Rounds rounds(cells, settings, measurement.report());
  const auto wanted = [&](const PlannedFork& fork) { return measurement.wanted(fork); };
  int done = 0, planned = 0;
  const auto plan = [&] {
    const std::vector<PlannedFork> all = rounds.foreseen();
    planned = done + static_cast<int>(std::count_if(all.begin(), all.end(), wanted));
    progress.plan(planned);
  };
  bool said_busy = false;
  const auto say_what_is_known = [&](std::size_t cell, bool ends_round) {
    const double part = pace.part_over(Pace::Clock::now(), done, planned);
    const std::string busy = said_busy ? "" : too_busy(measurement.report(), wanted_rounds(settings), part);
    if (!busy.empty()) progress.note(busy);
    said_busy = said_busy || !busy.empty();
    if (ends_round) progress.learnt(learnt(measurement.report(), cell));
  };
  if (!request.check_only) {
    note_scheduling(progress);
    plan();
  }
  // A quick run may end early: then some cells are complete, instead of all being only checked.
  const bool checks_first = !settings.quick || request.check_only;
  if (checks_first) measurement.check_all();
  if (!request.check_only) measurement.measure_rooflines(rounds.foreseen());
  while (!request.check_only && !stopped()) {
    const std::vector<PlannedFork> forks = rounds.next(measurement.report());
    if (forks.empty() || !pace.can_begin(forks, Pace::Clock::now())) break;
    plan();
    for (std::size_t i = 0; i < forks.size() && !stopped() && pace.can_begin({}, Pace::Clock::now()); ++i) {
      const PlannedFork& fork = forks[i];
      if (!checks_first) measurement.check(fork.cell);
      if (!wanted(fork)) continue;
      const Pace::Clock::time_point start = Pace::Clock::now();
      measurement.time(fork, pace.fair_share(forks.size() - i, start));
      const std::vector<Fork>& made = measurement.report().cells[fork.cell].forks;
      const double seconds = seconds_since(start);
      pace.took(fork.cell, made.empty() ? seconds
                                        : seconds_of_next(made.back(), seconds,
                                                          settings.fork_style == ForkStyle::resident));
      ++done;
      const bool ends_round =
          i + 1 == forks.size() || cells[forks[i + 1].cell].group() != cells[fork.cell].group();
      say_what_is_known(fork.cell, ends_round);
    }
  }
  progress.clear();
  if (!request.check_only) measurement.note_ends(rounds.ends(measurement.report(), stopped()));
  return {measurement.finish(stopped()), interrupts.signal()};
}

}  // namespace

namespace {

// A run has some 30 files open, and the dynamic linker of a worker some more.
void require_descriptors() {
  constexpr rlim_t wanted = 256, min_files = 64;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted) return;
  rlimit raised = limit;
  raised.rlim_cur = std::min(wanted, limit.rlim_max);
  if (::setrlimit(RLIMIT_NOFILE, &raised) == 0) limit = raised;
  if (limit.rlim_cur < min_files)
    throw ConfigError(
        fmt::format("the limit of open files is {}, and a run needs {}; raise it with: ulimit -n {}",
                    limit.rlim_cur, min_files, wanted));
}

// The kernel kills a process at its hard limit of CPU time. At the soft one, it sends a signal after which a run can still
// end in order.
void prepare_for_cpu_limit(Progress& progress) {
  constexpr rlim_t seconds_to_end = 2;
  rlimit limit{};
  if (::getrlimit(RLIMIT_CPU, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
  progress.note(fmt::format(
      "each process may use {} s of CPU time here (ulimit -t): a worker that needs more fails, and so does the "
      "run; raise it: ulimit -t unlimited",
      limit.rlim_cur));
  if (limit.rlim_cur < limit.rlim_max || limit.rlim_cur <= 2 * seconds_to_end) return;
  limit.rlim_cur -= seconds_to_end;
  ::setrlimit(RLIMIT_CPU, &limit);
}

}  // namespace

RunOutcome run(const RunRequest& request, Expansion cells, const Registries& registries, Progress& progress) {
  require_descriptors();
  prepare_for_cpu_limit(progress);
  if (const std::string why = why_nothing_is_cached(); !why.empty())
    progress.note("nothing is cached: " + why);
  const SurvivorGuard guard;
  const Interrupts interrupts;
  const Pace::Clock::time_point begin = Pace::Clock::now();
  if (request.check_only || !seeks_best(request.config))
    return run_cells(request, std::move(cells), registries, progress, interrupts, begin);
  const RunRequest best = find_best(request, registries, progress, interrupts, begin);
  return run_cells(best, cells_of(best, registries), registries, progress, interrupts, begin);
}

}  // namespace assay
