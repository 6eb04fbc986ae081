#include "harness/conductor/run/checks.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/conductor/run/cell_report.hpp"
#include "harness/conductor/run/lanes.hpp"
#include "harness/core/clock.hpp"
#include "harness/machine/cores.hpp"
#include "harness/report/time_spent.hpp"

namespace assay {
namespace {

bool may_be_caused_by_neighbor(Status status) {
  return status == Status::out_of_memory || status == Status::crashed || status == Status::timed_out ||
         status == Status::failed;
}

}  // namespace

bool Checks::wanted(std::size_t index) const {
  const Cell& cell = run_.cells[index];
  const CellReport& row = run_.rows[index];
  return cell.runnable() && cell.check && (run_.all || is_checked_before(cell)) && !row.equivalence.checked &&
         !has_failed(row);
}

const std::string& Checks::subject_of(std::size_t cell) {
  std::string& subject = subjects_[cell];
  if (subject.empty()) subject = check_subject(run_.cells[cell]);
  return subject;
}

// Takes the result of another cell that passed the same check; returns false if no cell did.
bool Checks::takes_result(std::size_t cell) {
  const auto same = passed_.find(subjects_.at(cell));
  if (same == passed_.end()) return false;
  CellReport& row = run_.rows[cell];
  row.equivalence = run_.rows[same->second].equivalence;
  row.equivalence.settings->shared = run_.cells[same->second].id;
  return true;
}

void Checks::make(std::size_t index) {
  const Cell& cell = run_.cells[index];
  if (!wanted(index) || run_.budget.spent(cell.axes.backend)) return;
  const QuickBudget::Stopwatch stopwatch(run_.budget, cell.axes.backend);
  run_.context.deadline = run_.budget.deadline(cell.axes.backend);
  subject_of(index);
  if (takes_result(index)) return;
  run_.progress.begin(run_.names[index] + " check");
  take({.cell = index}, check_cell(cell, run_.context));
}

void Checks::take(const InHand& check, const ForkOutcome& outcome) {
  CellReport& row = run_.rows[check.cell];
  const Status status = outcome.fork.status;
  row.check_spent = outcome.fork.spent;
  if (outcome.hello) take_hello(row, *outcome.hello);
  if (status != Status::interrupted) row.equivalence = outcome.verified;
  const bool failed = status != Status::ok && status != Status::interrupted;
  if (failed && !row.equivalence.checked) row.equivalence.reason = outcome.fork.reason;
  if (status == Status::ok && row.equivalence.passed && row.equivalence.settings)
    passed_.emplace(subjects_.at(check.cell), check.cell);
  run_.progress.end(check_summary(status, outcome.fork.reason, row.equivalence), status == Status::ok, false);
  made_(check.cell, outcome, check.start);
}

// Maximum number of checks at the same time; one on a GPU, because of its memory, and one if a cell has several ranks,
// which use the processors of all checks.
std::size_t Checks::lanes() const {
  const bool one = std::any_of(run_.cells.begin(), run_.cells.end(), [](const Cell& cell) {
    return cell.runnable() && (cell.axes.device == DeviceKind::cuda || cell.axes.ranks() > 1);
  });
  return one || run_.context.settings.quick ? 1 : std::min<std::size_t>(2, usable_cores().size());
}

void Checks::make_all() {
  const std::size_t at_a_time = lanes();
  for (std::size_t i = 0; i < run_.cells.size() && at_a_time == 1 && !stopped(); ++i) make(i);
  if (at_a_time > 1) make_side_by_side(at_a_time);
}

void Checks::make_side_by_side(std::size_t count) {
  const auto begin = std::chrono::steady_clock::now();
  std::vector<std::size_t> waiting, made, again;
  for (std::size_t i = 0; i < run_.cells.size(); ++i)
    if (wanted(i)) waiting.push_back(i);
  Slots slots(count);
  Lanes<ForkOutcome> lanes;  // destroyed first, before the objects that its threads use
  while (fill(waiting, slots, lanes)) {
    const auto [lane, outcome] = lanes.take();
    const InHand check = *std::exchange(slots[lane], std::nullopt);
    run_.progress.begin(run_.names[check.cell] + " check", check.begin);
    if (check.next_to_another && may_be_caused_by_neighbor(outcome.fork.status)) {
      again.push_back(check.cell);
      run_.progress.end(fmt::format("{} next to another check; repeating it with no other check running",
                                    to_string(outcome.fork.status)),
                        false, false);
    } else {
      made.push_back(check.cell);
      take(check, outcome);
    }
  }
  share_out(seconds_since(begin), made);
  for (const std::size_t cell : again)
    if (!stopped()) make(cell);
}

// Fills the free lanes. False if there is nothing to wait for.
bool Checks::fill(std::vector<std::size_t>& waiting, Slots& slots, Lanes<ForkOutcome>& lanes) {
  for (std::size_t lane = 0; lane < slots.size(); ++lane) {
    if (slots[lane] || stopped()) continue;
    slots[lane] = next(waiting, slots);
    if (!slots[lane]) continue;
    for (auto& check : slots)
      if (check) check->next_to_another = check->next_to_another || !lanes.empty();
    ForkContext context = run_.context;
    context.deadline = run_.budget.run_end();
    context.watch.progress = nullptr;  // only this thread shows the progress
    context.watch.phase = nullptr;
    context.lane = static_cast<int>(lane);
    lanes.start(lane, [this, &check = *slots[lane], context = std::move(context)] {
      return check_cell(run_.cells[check.cell], context);
    });
  }
  if (!lanes.empty()) show(slots);
  return !lanes.empty();
}

// The first waiting check without a running check of the same subject, whose result serves both.
std::optional<Checks::InHand> Checks::next(std::vector<std::size_t>& waiting, const Slots& slots) {
  for (auto at = waiting.begin(); at != waiting.end();) {
    const std::size_t cell = *at;
    subject_of(cell);
    const bool in_work = std::any_of(slots.begin(), slots.end(), [&](const auto& other) {
      return other && subjects_.at(other->cell) == subjects_.at(cell);
    });
    if (in_work) {
      ++at;
      continue;
    }
    at = waiting.erase(at);
    if (!wanted(cell) || takes_result(cell)) continue;
    return InHand{.cell = cell};
  }
  return std::nullopt;
}

void Checks::show(const Slots& slots) {
  std::vector<std::string> names;
  for (const auto& check : slots)
    if (check) names.push_back(run_.names[check->cell]);
  run_.progress.begin(fmt::format("{} check", fmt::join(names, ", ")));
}

// The sum of the times of parallel checks is larger than the wall time: scales each to its share of the wall
// time.
void Checks::share_out(double wall, const std::vector<std::size_t>& made) {
  double sum = 0;
  for (const std::size_t cell : made) sum += total(*run_.rows[cell].check_spent);
  if (sum <= wall) return;
  for (const std::size_t cell : made) scale(*run_.rows[cell].check_spent, wall / sum);
}

}  // namespace assay
