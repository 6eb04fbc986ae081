#include <algorithm>

#include <fmt/format.h>

#include "harness/conductor/run/measurement_parts.hpp"
#include "harness/core/text.hpp"
#include "harness/report/fork_time.hpp"

namespace assay {

std::optional<int> Measurement::Parts::fewer_threads(const Cell& cell, int left_out) const {
  const int threads = std::max(1, cell.axes.threads - left_out);
  const bool may = fewer_allowed_ && cell.axes.device == DeviceKind::cpu && cell.axes.ranks() == 1 &&
                   cell.axes.loader_threads() == 0 && settings_.fork_style == ForkStyle::fresh;
  return may && left_out > 0 && threads < cell.axes.threads ? std::optional(threads) : std::nullopt;
}

std::string Measurement::Parts::reason_to_give_up(const protocol::Progress& progress, const RunSoFar& run) {
  constexpr double min_seconds = 2, min_waited = 0.25, min_left = 5;
  if (!patience_ || run.seconds < min_seconds || progress.done <= 0) return "";
  const double step = run.seconds / static_cast<double>(progress.done);
  const double left = step * static_cast<double>(progress.planned - progress.done);
  if (left < min_left || run.seconds + left <= *patience_ || run.waited_share() < min_waited) return "";
  starved_step_ = step;
  return fmt::format("{} of {} steps took {}", progress.done, progress.planned, duration_text(run.seconds));
}

ForkOutcome Measurement::Parts::attempt(const PlannedFork& planned, std::optional<double> fair_share) {
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
      fmt::format("{}: given up, {}: its {} threads share processors with other work; again with fewer", name,
                  outcome.fork.reason, cell.axes.threads));
  outcome = once();
  name_starvation(planned.cell, outcome.fork, step, planned.round);
  return outcome;
}

void Measurement::Parts::name_starvation(std::size_t index, Fork& fork, std::optional<double> starved,
                                         int round) {
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
      "its {} shared processors with other work: a step took {} in round {}, and {} in this fork{}: {}stop other work",
      plural(threads, "thread"), duration_text(*starved), round + 1, duration_text(time->step_seconds),
      context_.threads ? fmt::format(", with --threads {}", fewer) : "",
      fewer < threads ? fmt::format("use --threads {}, or ", fewer) : ""));
}

}  // namespace assay
