#include "harness/conductor/run/measurement.hpp"

#include <algorithm>
#include <climits>
#include <map>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "harness/conductor/backends/build_info.hpp"
#include "harness/conductor/data/dataset.hpp"
#include "harness/conductor/run/best_mode.hpp"
#include "harness/conductor/run/cell_report.hpp"
#include "harness/conductor/run/checks.hpp"
#include "harness/conductor/run/core_watch.hpp"
#include "harness/conductor/run/crowding.hpp"
#include "harness/conductor/run/exams.hpp"
#include "harness/conductor/run/first_losses.hpp"
#include "harness/conductor/run/fork.hpp"
#include "harness/conductor/run/progress.hpp"
#include "harness/conductor/run/published_weights.hpp"
#include "harness/conductor/run/quick_budget.hpp"
#include "harness/conductor/run/replays.hpp"
#include "harness/conductor/run/resume.hpp"
#include "harness/conductor/run/roofline.hpp"
#include "harness/conductor/run/worker_plan.hpp"
#include "harness/core/clock.hpp"
#include "harness/core/io/scratch_root.hpp"
#include "harness/core/json/encode.hpp"
#include "harness/core/text.hpp"
#include "harness/machine/cores.hpp"
#include "harness/machine/environment.hpp"
#include "harness/report/environment_difference.hpp"
#include "harness/report/fork_time.hpp"

namespace assay {
namespace {

namespace fs = std::filesystem;

constexpr double quick_seconds = 120;  // of each backend

nlohmann::json settings_json(const RunSettings& settings) {
  nlohmann::json folders = nlohmann::json::array();
  for (const fs::path& folder : settings.data) folders.push_back(folder.string());
  return {{"forks", settings.forks},
          {"spare_rounds", settings.spare_rounds},
          {"until", settings.until == Until::clear ? "clear" : "forks"},
          {"fork_style", settings.fork_style == ForkStyle::resident ? "resident" : "fresh"},
          {"exams", settings.exams},
          {"examine", settings.examine_all ? "all" : "some"},
          {"max_time", settings.max_seconds},
          {"seed", settings.seed},
          {"seed_per_round", settings.seed_per_round},
          {"time_limit", settings.time_limit},
          {"quick", settings.quick},
          {"profile", settings.profile},
          {"roofline", settings.roofline},
          {"data", std::move(folders)},
          {"weights",
           settings.weights.empty() ? nlohmann::json(nullptr) : nlohmann::json(settings.weights.string())},
          {"environment", settings.environment}};
}

// The file of --weights; absent without it.
std::optional<PublishedWeights> weights_of(const RunSettings& settings, const std::vector<Cell>& cells) {
  if (settings.weights.empty()) return std::nullopt;
  return PublishedWeights(settings.weights, published_networks(cells));
}

}  // namespace

struct Measurement::Parts {
  Parts(const RunRequest& request, const BackendRegistry& registry, Progress& progress,
        const Interrupts& interrupts)
      : request_(request),
        progress_(progress),
        interrupts_(interrupts),
        settings_(settings_of(request.config)),
        expansion_(cells_of(request, registry)),
        cells_(expansion_.cells),
        weights_(weights_of(settings_, cells_)),
        journal_(request.out),
        scratch_(request.keep_folders),
        data_(settings_.data),
        budget_(settings_.quick ? std::optional(quick_seconds) : std::nullopt),
        exams_(scratch_.path() / "exams"),
        replays_(scratch_.path() / "replays"),
        context_{scratch_.path(),
                 registry,
                 settings_,
                 data_,
                 exams_,
                 request.keep_folders,
                 weights_ ? &*weights_ : nullptr,
                 &cores_},
        rooflines_(context_, progress),
        checks_(
            {cells_, report_.cells, names_, context_, budget_, progress_, interrupts_, request.check_only},
            [this](std::size_t cell, const ForkOutcome& outcome, const std::string& start) {
              take_check(cell, outcome, start);
            }) {
    for (std::size_t i = 0; i < cells_.size(); ++i) groups_[cells_[i].group()].push_back(i);
    if (request.resume) {
      reject_other_run(request);
      if (weights_) reject_other_weights(*request.resume, weights_->file());
      resumed_.emplace(request, groups_, cells_, planned_forks());
    }
    std::vector<const Axes*> axes;
    for (const Cell& cell : cells_) axes.push_back(&cell.axes);
    names_ = short_ids(axes);
    context_.replays = &replays_;
    context_.read_only = protected_paths(request.out.empty() ? request.trial_of : request.out, registry);
    context_.watch.interrupts = &interrupts_;
    context_.watch.progress = [&](const protocol::Progress& p) { progress_.steps(p.done, p.planned); };
    context_.watch.give_up = [&](const protocol::Progress& p, const RunSoFar& run) {
      return reason_to_give_up(p, run);
    };
    context_.watch.phase = [&](protocol::Verb verb) { progress_.phase(to_string(verb)); };
  }

  bool stopped() const { return interrupts_.signal() != 0; }
  // The minimum number of forks of a complete cell.
  int planned_forks() const {
    if (request_.check_only) return 0;
    return settings_.until == Until::clear ? 1 : settings_.forks;
  }

  // Gives each skipped cell its reason; a fork that was cut off already has one.
  bool out_of_budget() {
    bool left_out = false;
    for (std::size_t i = 0; i < cells_.size(); ++i) {
      CellReport& row = report_.cells[i];
      if (!cells_[i].runnable() || row.status != Status::interrupted ||
          !budget_.spent(cells_[i].axes.backend))
        continue;
      left_out = true;
      end_with(row, ReasonCode::quick_time_spent,
               fmt::format("the {:g} s that --quick allows for a backend were used up before this cell",
                           quick_seconds));
    }
    return left_out;
  }

  // Whether --max-time ended before the forks of a cell.
  bool out_of_time() const {
    for (std::size_t i = 0; budget_.run_end() && i < cells_.size(); ++i)
      if (cells_[i].runnable() && report_.cells[i].status == Status::interrupted) return true;
    return false;
  }

  void prepare_report() {
    const BuildInfo& build = build_info();
    report_.run = {{"command_line", request_.command_line},
                   {"config", to_json(request_.config)},
                   {"start", utc_now()},
                   {"end", nullptr},
                   {"commit", build.commit},
                   {"dirty", build.dirty},
                   {"version", build.version},
                   {"build", encode(BuildRecord{std::string(build.compiler), std::string(build.build_type),
                                                std::string(build.flags)})},
                   {"complete", false},
                   {"quick", settings_.quick},
                   {"datasets", nlohmann::json::array()}};
    report_.run["settings"] = settings_json(settings_);
    if (weights_) report_.run["weights"] = encode(weights_->file());
    report_.run["programs"] = programs_of(cells_, context_.registry);
    if (!expansion_.left_out.empty()) report_.run["left_out"] = expansion_.left_out;
    if (!request_.best.empty()) report_.run["best"] = encode(request_.best);
    report_.environment = request_.environment;
    note_session();
    if (request_.resume && request_.resume->run.contains("start"))
      report_.run["start"] = request_.resume->run["start"];
    if (request_.shard) report_.run["shard"] = encode(*request_.shard);
    for (const Cell& cell : cells_) report_.cells.push_back(planned_report(cell, settings_.seed));
    if (resumed_) take_earlier_cells();
    // From here on every saved report is complete, even if the program is killed.
    for (std::size_t i = 0; request_.resume && i < cells_.size(); ++i) resolve(i);
  }

  void take_earlier_cells() {
    const Report& earlier = *request_.resume;
    if (!earlier.environments.empty()) {
      report_.environments = earlier.environments;
      report_.environments.push_back(request_.environment);
      report_.environment = report_.environments.front();
      for (const char* key : {"merged", "datasets"})
        if (const auto found = earlier.run.find(key); found != earlier.run.end()) report_.run[key] = *found;
    }
    for (std::size_t i = 0; i < cells_.size(); ++i) {
      const ResumedCell& cell = resumed_->of(i);
      CellReport& row = report_.cells[i];
      if (is_elsewhere(i)) {
        row = *cell.earlier;
        end_with(cells_[i], ReasonCode::not_reached, "measured on another machine");  // never runs here
      } else if (cell.place == ResumedPlace::continued) {
        take_earlier(row, earlier);
      }
      row.environment = cell.environment;
    }
  }

  // Whether another machine has measured the cell, for a merged report that is resumed.
  bool is_elsewhere(std::size_t cell) const {
    return resumed_ && resumed_->of(cell).place == ResumedPlace::elsewhere;
  }
  // The part of the report about this machine.
  nlohmann::json& this_machine() {
    return report_.environments.empty() ? report_.environment : report_.environments.back();
  }

  // Adds this start of the program to those of the earlier report.
  void note_session() {
    const BuildInfo& build = build_info();
    nlohmann::json sessions = nlohmann::json::array();
    if (request_.resume) {
      if (const auto earlier = request_.resume->run.find("sessions");
          earlier != request_.resume->run.end() && earlier->is_array())
        sessions = *earlier;
      for (const CellReport& cell : request_.resume->cells)
        for (const Fork& fork : cell.forks) next_order_ = std::max(next_order_, fork.order.value_or(-1) + 1);
    }
    session_ = static_cast<int>(sessions.size());
    sessions.push_back(encode(SessionRecord{.start = report_.run["start"],
                                            .commit = std::string(build.commit),
                                            .version = std::string(build.version),
                                            .boot_id = boot_id(),
                                            .dirty = build.dirty,
                                            .variables = session_variables(settings_),
                                            .dropped = dropped_variables(settings_)}));
    report_.run["sessions"] = std::move(sessions);
  }

  // Sets the time, the place in the order of the run and the session of the fork.
  void stamp(Fork& fork, std::string start) {
    fork.start = std::move(start);
    fork.order = next_order_++;
    fork.session = session_;
  }

  // A missing data set gets rows with that status; a damaged one is bad input and ends the run before it
  // begins.
  void prepare_data() {
    if (planned_forks() == 0) return;
    for (std::size_t i = 0; i < cells_.size(); ++i) {
      if (!cells_[i].runnable() || !cells_[i].reads_dataset()) continue;
      try {
        note_dataset(i, data_.get(cells_[i], cells_[i].program()));
      } catch (const DatasetMissing& error) {
        end_with(cells_[i], ReasonCode::dataset_missing, error.what());
        end_like(report_.cells[i], cells_[i]);
      }
    }
  }

  // Once for each data set and shape.
  void note_dataset(std::size_t cell, const PreparedDataset& data) {
    nlohmann::json entry = encode(data.record(cells_[cell].axes.dataset));
    if (resumed_) reject_other_dataset(*request_.resume, resumed_->of(cell), entry);
    nlohmann::json& all = report_.run["datasets"];
    if (std::find(all.begin(), all.end(), entry) == all.end()) all.push_back(std::move(entry));
  }

  // The conductor avoids the processors of the cell with the most threads, if the machine has more.
  std::vector<int> busiest_cores() const {
    std::int64_t max_threads = 0;
    for (const Cell& cell : cells_)
      if (cell.runnable()) max_threads = std::max(max_threads, cell.axes.threads_of_all_ranks());
    return worker_cores(static_cast<int>(std::min<std::int64_t>(max_threads, INT_MAX)));
  }

  bool wanted(const PlannedFork& fork) const {
    const CellReport& row = report_.cells[fork.cell];
    return cells_[fork.cell].runnable() && !gives_up(row, cells_[fork.cell]) && !has_round(row, fork.round);
  }

  // Checks puts the result of a check into its row; this function handles its effects on the run.
  void take_check(std::size_t index, const ForkOutcome& outcome, const std::string& start) {
    CellReport& row = report_.cells[index];
    const Status status = outcome.fork.status;
    if (outcome.hello) backends_.try_emplace(cells_[index].axes.backend, outcome.backend);
    if (status != Status::ok && status != Status::interrupted) {
      take_failed_check(row, outcome.fork);
      stamp(row.forks.back(), start);
      take_unavailable(index, status, outcome.fork.reason);
    }
    resolve(index);
    save();
  }

  // If a device is unavailable for one cell of a backend, skips that backend's other cells on it. (Missing
  // data sets were handled before.)
  void take_unavailable(std::size_t index, Status status, const std::string& reason) {
    if (status != Status::unavailable) return;
    const Axes& found = cells_[index].axes;
    for (std::size_t i = 0; i < cells_.size(); ++i) {
      CellReport& row = report_.cells[i];
      const bool same = cells_[i].axes.backend == found.backend && cells_[i].axes.device == found.device;
      if (!same || !cells_[i].runnable() || row.equivalence.checked || !row.forks.empty()) continue;
      end_with(cells_[i], ReasonCode::found_by_another_cell,
               fmt::format("{} (found by {})", reason, cells_[index].id));
      end_like(row, cells_[i]);
    }
  }

  // Once for all cells of a device, precision and thread count that are still to be timed.
  void measure_rooflines(const std::vector<PlannedFork>& forks) {
    for (const PlannedFork& fork : forks) {
      const Cell& cell = cells_[fork.cell];
      const bool asked = settings_.roofline == "true" ||
                         (settings_.roofline == "auto" && cell.has_roofline() && !settings_.quick);
      if (stopped()) return;
      if (asked && wanted(fork) && !rooflines_.measured(cell.axes) && cell.axes.ranks() == 1)
        rooflines_.measure(cell.axes);
    }
    draw_rooflines();
  }

  void draw_rooflines() {
    for (std::size_t i = 0; i < cells_.size(); ++i)
      if (!is_elsewhere(i)) rooflines_.apply(report_.cells[i].axes, report_.cells[i].work);
    rooflines_.write(this_machine());
  }

  std::string machine() { return machine_fingerprint(this_machine()).value_or(""); }

  // A cell above the roofline is wrong, or the roofline is too low: measures it again before judging the
  // cell.
  void hold_to_rooflines(const Cell& cell, const CellReport& row, Fork& fork) {
    constexpr int attempts = 3;
    if (fork.status != Status::ok) return;
    const Program program = cell.program();
    if (!cell.has_roofline() && cell.axes.ranks() == 1 && !rooflines_.measured(cell.axes) &&
        may_be_beyond_peak(cell.axes, row.work, median_step(fork))) {
      rooflines_.know_peak(cell.axes, machine());
      draw_rooflines();
    }
    if (!rooflines_.measured(cell.axes)) return;
    const double input_bytes = cell.has_roofline()
                                   ? static_cast<double>(sizeof(float)) *
                                         static_cast<double>(input_elements(program.graph(cell.axes.task)))
                                   : 0;
    std::string reason;
    for (int attempt = 0; attempt <= attempts && !stopped(); ++attempt) {
      reason =
          beyond_roofline(cell.axes, row.work, input_bytes, median_step(fork), allowed_over_peak(program));
      if (reason.empty()) return;
      if (attempt == attempts) break;
      rooflines_.measure(cell.axes);
      rooflines_.keep_peak(cell.axes, machine());
      draw_rooflines();
    }
    if (reason.empty()) return;
    end_with(fork, ReasonCode::faster_than_machine, reason);
  }

  // With how many threads the cell's next fork runs on a busy machine; nothing if it cannot be with fewer than it has.
  std::optional<int> fewer_threads(const Cell& cell, int left_out) const {
    const int threads = std::max(1, cell.axes.threads - left_out);
    const bool may = fewer_allowed_ && cell.axes.device == DeviceKind::cpu && cell.axes.ranks() == 1 &&
                     cell.axes.loader_threads() == 0 && settings_.fork_style == ForkStyle::fresh;
    return may && left_out > 0 && threads < cell.axes.threads ? std::optional(threads) : std::nullopt;
  }

  // Why a fork is ended: see Measurement::time(). A few steps do not show how long the others take.
  std::string reason_to_give_up(const protocol::Progress& progress, const RunSoFar& run) {
    constexpr double min_seconds = 2, min_waited = 0.25, min_left = 5;
    if (!patience_ || run.seconds < min_seconds || progress.done <= 0) return "";
    const double step = run.seconds / static_cast<double>(progress.done);
    const double left = step * static_cast<double>(progress.planned - progress.done);
    if (left < min_left || run.seconds + left <= *patience_ || run.waited_share() < min_waited) return "";
    starved_step_ = step;
    return fmt::format("{} of {} steps took {}", progress.done, progress.planned, duration_text(run.seconds));
  }

  // Times one fork; again, with fewer threads, if the first one was given up.
  ForkOutcome attempt(const PlannedFork& planned, std::optional<double> fair_share) {
    const Cell& cell = cells_[planned.cell];
    const std::string name = fmt::format("{} round {}", names_[planned.cell], planned.round + 1);
    const auto once = [&] {
      context_.threads = fewer_threads(cell, crowding_.threads_left_out());
      patience_ = !context_.threads && fewer_threads(cell, 1) ? fair_share : std::nullopt;
      starved_step_.reset();
      context_.deadline = budget_.deadline(cell.axes.backend);
      progress_.begin(name);
      return time_cell(cell, planned.round, context_, &residents_[planned.cell]);
    };
    ForkOutcome outcome = once();
    if (!starved_step_) return outcome;
    crowding_.note_starved();
    const double step = *starved_step_;
    progress_.note(
        fmt::format("{}: given up, {}: its {} threads share processors with other work; again with fewer",
                    name, outcome.fork.reason, cell.axes.threads));
    outcome = once();
    name_starvation(planned.cell, outcome.fork, step, planned.round);
    return outcome;
  }

  // Adds a warning to a fork that is far faster than a disturbed one of its cell, once for a cell. `starved`: the step of a
  // fork of the same round that was given up.
  void name_starvation(std::size_t index, Fork& fork, std::optional<double> starved, int round) {
    constexpr double min_ratio = 5;
    const auto time = fork_time(fork);
    if (fork.status != Status::ok || !time || named_.contains(index)) return;
    for (const Fork& other : report_.cells[index].forks) {
      const auto slow = fork_time(other);
      if (other.status != Status::ok || !slow || !contains(other.flags, quality_flag::disturbed)) continue;
      if (starved && *starved >= slow->step_seconds) continue;
      starved = slow->step_seconds;
      round = other.round;
    }
    if (!starved || *starved < min_ratio * time->step_seconds) return;
    named_.insert(index);
    const int threads = cells_[index].axes.threads;
    const int fewer = context_.threads.value_or(std::max(1, threads - 1));
    fork.warnings.push_back(fmt::format(
        "its {} threads share processors with other work: a step took {} in round {}, and {} in this fork{}: use --threads "
        "{}, or stop other work",
        threads, duration_text(*starved), round + 1, duration_text(time->step_seconds),
        context_.threads ? fmt::format(", with --threads {}", fewer) : "", fewer));
  }

  // The run is over: keeps only what a reader must know of a cell that has no other fork.
  bool drops(const CellReport& row, const Fork& fork) const {
    return fork.reason_code == ReasonCode::max_time_spent && !row.forks.empty();
  }

  void time(const PlannedFork& planned, std::optional<double> fair_share) {
    const Cell& cell = cells_[planned.cell];
    CellReport& row = report_.cells[planned.cell];
    if (budget_.spent(cell.axes.backend)) return;
    const QuickBudget::Stopwatch stopwatch(budget_, cell.axes.backend);
    std::string start = utc_now();
    ForkOutcome outcome = attempt(planned, fair_share);
    if (drops(row, outcome.fork)) {
      progress_.end("dropped: " + outcome.fork.reason, false, false);
      return;
    }
    if (outcome.fork.reason_code == ReasonCode::max_time_spent) outcome.verified = {};
    if (outcome.fork.status == Status::ok) {
      name_starvation(planned.cell, outcome.fork, std::nullopt, planned.round);
      crowding_.note(outcome.fork);
    }
    if (outcome.hello) {
      reject_other_backend(cell, outcome);
      reject_other_libraries(row, outcome);
      take_hello(row, *outcome.hello);
    }
    if (outcome.verified.checked || !outcome.verified.reason.empty()) {
      row.equivalence = merged(row.equivalence, outcome.verified);
    }
    stamp(outcome.fork, std::move(start));
    progress_.end(fork_summary(outcome.fork), outcome.fork.status == Status::ok && outcome.fork.flags.empty(),
                  true);
    hold_to_rooflines(cell, row, outcome.fork);
    row.forks.push_back(std::move(outcome.fork));
    take_unavailable(planned.cell, row.forks.back().status, row.forks.back().reason);
    compare_losses(planned);
    resolve_group(planned.cell);
    save();
  }

  void compare_losses(const PlannedFork& planned) {
    std::vector<CellReport*> rows;
    for (const std::size_t i : groups_.at(cells_[planned.cell].group()))
      if (trains_alike(i)) rows.push_back(&report_.cells[i]);
    compare_first_losses(rows, planned.round);
  }

  // A cell that draws masks, or has its own initial values or order of batches, has a different loss.
  bool trains_alike(std::size_t index) {
    const Cell& cell = cells_[index];
    if (!cell.runnable() || !cell.has_loss() || cell.axes.loader == LoaderKind::native) return false;
    if (cell.axes.text("initial") == "own") return false;
    const auto [found, is_new] = draws_.try_emplace(index, false);
    if (is_new) found->second = !cell.program().training.with_role(Role::mask).empty();
    return !found->second;
  }

  // Forks with different libraries must not share a row, because their median and interval would mix them.
  void reject_other_libraries(const CellReport& row, ForkOutcome& outcome) const {
    if (outcome.fork.status != Status::ok) return;
    const std::string other = other_library(row, *outcome.hello);
    if (other.empty()) return;
    end_with(outcome.fork, ReasonCode::library_changed,
             fmt::format("{}: forks with different libraries must not be mixed; measure into a new report",
                         other));
  }

  // The same of the backend's own files; cells of one backend are compared with each other, so it holds for all of them.
  void reject_other_backend(const Cell& cell, ForkOutcome& outcome) {
    const auto [first, is_new] = backends_.try_emplace(cell.axes.backend, outcome.backend);
    const std::string name = changed_backend_file(first->second, outcome.backend);
    if (name.empty() || outcome.fork.status != Status::ok) return;
    end_with(
        outcome.fork, ReasonCode::backend_changed,
        fmt::format(
            "{} of the backend {} was changed during the run: forks of both must not be mixed; measure into "
            "a new report",
            name, cell.axes.backend));
  }

  // What is usual, and so which forks of the group are disturbed, follows from all of them.
  void resolve_group(std::size_t index) {
    const std::vector<std::size_t>& group = groups_.at(cells_[index].group());
    std::vector<CellReport*> rows;
    for (const std::size_t i : group) rows.push_back(&report_.cells[i]);
    if (!mark_disturbances(rows)) return resolve(index);
    for (const std::size_t i : group) resolve(i);
  }

  void resolve(std::size_t index) {
    if (cells_[index].runnable()) resolve_status(report_.cells[index], cells_[index], planned_forks());
  }

  // A full disk may have space later; only the last save must succeed.
  void save() {
    try {
      journal_.save(report_);
    } catch (const std::runtime_error& error) {
      progress_.note(fmt::format("warning: the report could not be written: {}", error.what()));
    }
  }

  Report finish(bool cut_short) {
    report_.run["end"] = utc_now();
    for (std::size_t i = 0; i < cells_.size(); ++i) resolve(i);
    const BestMemory memory;
    for (std::size_t i = 0; i < cells_.size(); ++i) {
      CellReport& row = report_.cells[i];
      if (!is_elsewhere(i)) row.better = memory.better(row, machine_of(report_, row));
    }
    report_.run["complete"] = !cut_short && !out_of_budget() && !out_of_time();
    if (settings_.quick) report_.run["quick_seconds"] = budget_.used();
    journal_.finish(report_);
    return std::move(report_);
  }

  const RunRequest& request_;
  Progress& progress_;
  const Interrupts& interrupts_;
  RunSettings settings_;
  Expansion expansion_;
  std::vector<Cell>& cells_;
  std::optional<PublishedWeights> weights_;
  CellGroups groups_;  // cells that are compared with each other
  std::optional<ResumedCells> resumed_;
  Journal journal_;
  ScratchRoot scratch_;
  DatasetShelf data_;
  QuickBudget budget_;
  Exams exams_;
  Replays replays_;
  CoreWatch cores_{{.pause = [this](CoreWatch::Seconds time) {
    std::this_thread::sleep_for(time);
    return !stopped();
  }}};
  ForkContext context_;
  Rooflines rooflines_;
  Report report_;
  std::map<std::size_t, std::optional<ResidentWorker>> residents_;  // by cell
  std::vector<std::string> names_;                                  // short names of the cells
  std::map<std::string, BackendDigest> backends_;  // by name, when a worker of it was first started
  std::map<std::size_t, bool> draws_;              // by cell: whether it has a dropout
  std::set<std::size_t> named_;                    // cells, by name_starvation()
  Crowding crowding_{cells_.size()};
  bool fewer_allowed_ = false;
  std::optional<double> patience_;      // seconds for the steps of the current fork; absent: no limit
  std::optional<double> starved_step_;  // seconds of a step of the fork that was given up
  int session_ = 0;
  int next_order_ = 0;
  Checks checks_;
};

Measurement::Measurement(const RunRequest& request, const BackendRegistry& registry, Progress& progress,
                         const Interrupts& interrupts)
    : parts_(std::make_unique<Parts>(request, registry, progress, interrupts)) {}
Measurement::~Measurement() = default;

const std::vector<Cell>& Measurement::cells() const { return parts_->cells_; }
const RunSettings& Measurement::settings() const { return parts_->settings_; }
const Report& Measurement::report() const { return parts_->report_; }

void Measurement::prepare() {
  parts_->prepare_report();
  parts_->prepare_data();
  leave_cores_to_worker(parts_->busiest_cores());
  parts_->save();
}

void Measurement::plan(int forks) { parts_->settings_.forks = forks; }
void Measurement::check(std::size_t cell) { parts_->checks_.make(cell); }
void Measurement::check_all() { parts_->checks_.make_all(); }
void Measurement::measure_rooflines(const std::vector<PlannedFork>& forks) {
  parts_->measure_rooflines(forks);
}
bool Measurement::wanted(const PlannedFork& fork) const { return parts_->wanted(fork); }
void Measurement::time(const PlannedFork& fork, std::optional<double> fair_share) {
  parts_->time(fork, fair_share);
}
void Measurement::end_at(std::chrono::steady_clock::time_point end) { parts_->budget_.end_run_at(end); }
void Measurement::note_ends(const std::vector<GroupEnd>& ends) {
  if (!ends.empty()) parts_->report_.run["ended"] = encode(ends);
}
void Measurement::allow_fewer_threads() { parts_->fewer_allowed_ = true; }
Report Measurement::finish(bool cut_short) {
  take_cores_back();
  return parts_->finish(cut_short);
}

}  // namespace assay
