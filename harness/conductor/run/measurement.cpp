#include "harness/conductor/run/measurement.hpp"

#include <algorithm>
#include <climits>
#include <utility>

#include <fmt/format.h>

#include "harness/conductor/fork/worker_plan.hpp"
#include "harness/conductor/run/best_mode.hpp"
#include "harness/conductor/run/first_losses.hpp"
#include "harness/conductor/run/measurement_parts.hpp"
#include "harness/core/text.hpp"
#include "harness/machine/cores.hpp"
#include "harness/report/hosts.hpp"

namespace assay {
namespace {

constexpr double quick_seconds = 120;  // of each backend

}  // namespace

Measurement::Parts::Parts(const RunRequest& request, Expansion cells, const Registries& registries,
                          Progress& progress, const Interrupts& interrupts)
    : request_(request),
      progress_(progress),
      interrupts_(interrupts),
      settings_(settings_of(request.config)),
      expansion_(std::move(cells)),
      cells_(expansion_.cells),
      weights_(initial_weights(settings_, cells_, registries.workloads)),
      scratch_(request.keep_folders),
      data_(settings_.data, [&progress](const std::string& text) { progress.note(text); }),
      budget_(settings_.quick ? std::optional(quick_seconds) : std::nullopt),
      exams_(scratch_.path() / "exams"),
      context_{scratch_.path(),
               registries,
               settings_,
               data_,
               exams_,
               request.keep_folders,
               weights_ ? &*weights_ : nullptr,
               &cores_},
      rooflines_(context_, progress),
      written_(request, settings_, expansion_, progress),
      timer_(context_, budget_, progress, cells_.size()),
      checks_({cells_, report().cells, names_, context_, budget_, progress_, interrupts_, request.check_only},
              [this](std::size_t cell, const ForkOutcome& outcome, const std::string& start) {
                take_check(cell, outcome, start);
              }) {
  for (std::size_t i = 0; i < cells_.size(); ++i) groups_[cells_[i].group()].push_back(i);
  if (request.resume) {
    reject_other_run(request);
    if (weights_) reject_other_weights(*request.resume, weights_->file());
    written_.resume(groups_, planned_forks());
  }
  std::vector<const Axes*> axes;
  for (const Cell& cell : cells_) axes.push_back(&cell.axes);
  names_ = short_ids(axes);
  context_.replays = &replays_;
  context_.read_only = protected_paths(request.out.empty() ? request.trial_of : request.out,
                                       registries.backends, settings_, cells_);
  context_.watch.interrupts = &interrupts_;
  context_.watch.progress = [&](const protocol::Progress& p) { progress_.steps(p.done, p.planned); };
  context_.watch.give_up = [&](const protocol::Progress& p, const RunSoFar& run) {
    return timer_.reason_to_give_up(p, run);
  };
  context_.watch.phase = [&](protocol::Verb verb) { progress_.phase(to_string(verb)); };
}

int Measurement::Parts::planned_forks() const {
  if (request_.check_only) return 0;
  return settings_.until == Until::clear ? 1 : settings_.forks;
}

bool Measurement::Parts::out_of_budget() {
  bool left_out = false;
  for (std::size_t i = 0; i < cells_.size(); ++i) {
    CellReport& row = report().cells[i];
    if (!cells_[i].runnable() || row.status != Status::interrupted || !budget_.spent(cells_[i].axes.backend))
      continue;
    left_out = true;
    end_with(row, ReasonCode::quick_time_spent,
             fmt::format("the {:g} s that --quick allows for a backend were used up before this cell",
                         quick_seconds));
  }
  return left_out;
}

bool Measurement::Parts::out_of_time() const {
  for (std::size_t i = 0; budget_.run_end() && i < cells_.size(); ++i)
    if (cells_[i].runnable() && report().cells[i].status == Status::interrupted) return true;
  return false;
}

void Measurement::Parts::begin() {
  written_.begin(context_.registries.backends, weights_ ? std::optional(weights_->file()) : std::nullopt);
  // From here on every saved report is complete, even if the program is killed.
  for (std::size_t i = 0; request_.resume && i < cells_.size(); ++i) resolve(i);
  prepare_data();
  leave_cores_to_worker(busiest_cores());
  written_.save();
}

void Measurement::Parts::prepare_data() {
  if (planned_forks() == 0) return;
  for (std::size_t i = 0; i < cells_.size(); ++i) {
    if (!cells_[i].runnable() || !cells_[i].reads_dataset()) continue;
    try {
      written_.note_dataset(i, data_.get(cells_[i]));
    } catch (const DatasetMissing& error) {
      end_with(cells_[i], ReasonCode::dataset_missing, error.what());
      end_like(report().cells[i], cells_[i]);
    }
  }
}

std::vector<int> Measurement::Parts::busiest_cores() const {
  std::int64_t max_threads = 0;
  for (const Cell& cell : cells_)
    if (cell.runnable()) max_threads = std::max(max_threads, cell.axes.threads_of_all_ranks());
  return worker_cores(static_cast<int>(std::min<std::int64_t>(max_threads, INT_MAX)));
}

bool Measurement::Parts::wanted(const PlannedFork& fork) const {
  const CellReport& row = report().cells[fork.cell];
  return cells_[fork.cell].runnable() && !gives_up(row, cells_[fork.cell]) && !has_round(row, fork.round);
}

void Measurement::Parts::take_check(std::size_t index, const ForkOutcome& outcome, const std::string& start) {
  CellReport& row = report().cells[index];
  const Status status = outcome.fork.status;
  if (outcome.hello) backends_.try_emplace(cells_[index].axes.backend, outcome.backend);
  if (status != Status::ok && status != Status::interrupted) {
    take_failed_check(row, outcome.fork);
    written_.stamp(row.forks.back(), start);
    take_unavailable(index, status, outcome.fork.reason);
  }
  resolve(index);
  written_.save();
}

void Measurement::Parts::take_unavailable(std::size_t index, Status status, const std::string& reason) {
  if (status != Status::unavailable) return;
  const Axes& found = cells_[index].axes;
  for (std::size_t i = 0; i < cells_.size(); ++i) {
    CellReport& row = report().cells[i];
    const bool same = cells_[i].axes.backend == found.backend && cells_[i].axes.device == found.device;
    if (!same || !cells_[i].runnable() || row.equivalence.checked || !row.forks.empty()) continue;
    end_with(cells_[i], ReasonCode::found_by_another_cell,
             fmt::format("{} (found by {})", reason, cells_[index].id));
    end_like(row, cells_[i]);
  }
}

void Measurement::Parts::time(const PlannedFork& planned, std::optional<double> fair_share) {
  const Cell& cell = cells_[planned.cell];
  CellReport& row = report().cells[planned.cell];
  if (budget_.spent(cell.axes.backend)) return;
  const QuickBudget::Stopwatch stopwatch(budget_, cell.axes.backend);
  std::string start = utc_now();
  ForkOutcome outcome =
      timer_.time(cell, {planned.cell, &row, names_[planned.cell], planned.round, fair_share});
  if (drops(row, outcome.fork)) {
    progress_.end("dropped: " + outcome.fork.reason, false, false);
    return;
  }
  if (outcome.fork.reason_code == ReasonCode::max_time_spent) outcome.verified = {};
  if (outcome.hello) {
    reject_other_backend(cell, outcome);
    reject_other_libraries(row, outcome);
    take_hello(row, *outcome.hello);
  }
  if (outcome.verified.checked || !outcome.verified.reason.empty()) {
    row.equivalence = merged(row.equivalence, outcome.verified);
  }
  written_.stamp(outcome.fork, std::move(start));
  progress_.end(fork_summary(outcome.fork), outcome.fork.status == Status::ok && outcome.fork.flags.empty(),
                true);
  add_hosts(report().hosts, std::move(outcome.hosts));
  hold_to_rooflines(cell, row, outcome.fork);
  row.forks.push_back(std::move(outcome.fork));
  take_unavailable(planned.cell, row.forks.back().status, row.forks.back().reason);
  compare_losses(planned);
  resolve_group(planned.cell);
  written_.save();
}

void Measurement::Parts::compare_losses(const PlannedFork& planned) {
  std::vector<CellReport*> rows;
  for (const std::size_t i : groups_.at(cells_[planned.cell].group()))
    if (trains_alike(i)) rows.push_back(&report().cells[i]);
  compare_first_losses(rows, planned.round);
}

bool Measurement::Parts::trains_alike(std::size_t index) {
  const Cell& cell = cells_[index];
  if (!cell.runnable() || !cell.has_loss() || cell.axes.loader == LoaderKind::native) return false;
  if (cell.axes.text("initial") == "own") return false;
  const auto [found, is_new] = draws_.try_emplace(index, false);
  if (is_new) found->second = cell.program->draws_masks(cell.axes.task);
  return !found->second;
}

void Measurement::Parts::reject_other_libraries(const CellReport& row, ForkOutcome& outcome) const {
  if (outcome.fork.status != Status::ok) return;
  const std::string other = other_library(row, *outcome.hello);
  if (other.empty()) return;
  end_with(
      outcome.fork, ReasonCode::library_changed,
      fmt::format("{}: forks with different libraries must not be mixed; measure into a new report", other));
}

void Measurement::Parts::reject_other_backend(const Cell& cell, ForkOutcome& outcome) {
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

void Measurement::Parts::resolve_group(std::size_t index) {
  const std::vector<std::size_t>& group = groups_.at(cells_[index].group());
  std::vector<CellReport*> rows;
  for (const std::size_t i : group) rows.push_back(&report().cells[i]);
  if (!mark_disturbances(rows)) return resolve(index);
  for (const std::size_t i : group) resolve(i);
}

Report Measurement::Parts::finish(bool cut_short) {
  report().run.end = std::max(utc_now(), report().run.start);  // the clock of the system may be set back
  for (std::size_t i = 0; i < cells_.size(); ++i) resolve(i);
  const BestMemory memory;
  for (std::size_t i = 0; i < cells_.size(); ++i) {
    CellReport& row = report().cells[i];
    if (!written_.is_elsewhere(i)) row.better = memory.better(row, machine_of(report(), row));
  }
  report().run.complete = !cut_short && !out_of_budget() && !out_of_time();
  if (settings_.quick) report().run.quick_seconds = budget_.used();
  return written_.finish();
}

Measurement::Measurement(const RunRequest& request, Expansion cells, const Registries& registries,
                         Progress& progress, const Interrupts& interrupts)
    : parts_(std::make_unique<Parts>(request, std::move(cells), registries, progress, interrupts)) {}
Measurement::~Measurement() = default;

const std::vector<Cell>& Measurement::cells() const { return parts_->cells_; }
const RunSettings& Measurement::settings() const { return parts_->settings_; }
const Report& Measurement::report() const { return parts_->report(); }

void Measurement::prepare() { parts_->begin(); }

void Measurement::plan(int forks) { parts_->settings_.forks = forks; }
void Measurement::check(std::size_t cell) { parts_->checks_.make(cell); }
void Measurement::check_all() {
  if (!parts_->only_plans()) parts_->checks_.make_all();
}
void Measurement::measure_rooflines(const std::vector<PlannedFork>& forks) {
  parts_->measure_rooflines(forks);
}
bool Measurement::wanted(const PlannedFork& fork) const { return parts_->wanted(fork); }
void Measurement::time(const PlannedFork& fork, std::optional<double> fair_share) {
  parts_->time(fork, fair_share);
}
void Measurement::end_at(std::chrono::steady_clock::time_point end) { parts_->budget_.end_run_at(end); }
void Measurement::note_ends(const std::vector<GroupEnd>& ends) { parts_->report().run.ended = ends; }
void Measurement::allow_fewer_threads() { parts_->timer_.allow_fewer_threads(); }
Report Measurement::finish(bool cut_short) {
  take_cores_back();
  return parts_->finish(cut_short);
}

}  // namespace assay
