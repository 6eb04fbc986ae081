#include "harness/conductor/run/fork_timer.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "harness/core/text.hpp"
#include "harness/report/fork_time.hpp"

namespace assay {

std::optional<int> ForkTimer::fewer_threads(const Cell& cell, int left_out) const {
  const int threads = std::max(1, cell.axes.threads - left_out);
  const bool may = fewer_allowed_ && cell.axes.device == DeviceKind::cpu && cell.axes.ranks() == 1 &&
                   cell.axes.loader_threads() == 0 && context_.settings.fork_style == ForkStyle::fresh;
  return may && left_out > 0 && threads < cell.axes.threads ? std::optional(threads) : std::nullopt;
}

std::string ForkTimer::reason_to_give_up(const protocol::Progress& progress, const RunSoFar& run) {
  constexpr double min_seconds = 2, min_waited = 0.25, min_left = 5;
  if (!patience_ || run.seconds < min_seconds || progress.done <= 0) return "";
  const double step = run.seconds / static_cast<double>(progress.done);
  const double left = step * static_cast<double>(progress.planned - progress.done);
  if (left < min_left || run.seconds + left <= *patience_ || run.waited_share() < min_waited) return "";
  starved_step_ = step;
  return fmt::format("{} of {} steps took {}", progress.done, progress.planned, duration_text(run.seconds));
}

ForkOutcome ForkTimer::time(const Cell& cell, const ForkAsked& asked) {
  const std::string name = fmt::format("{} round {}", asked.name, asked.round + 1);
  const auto once = [&] {
    context_.threads = fewer_threads(cell, crowding_.threads_left_out());
    patience_ = !context_.threads && fewer_threads(cell, 1) ? asked.fair_share : std::nullopt;
    starved_step_.reset();
    context_.deadline = budget_.deadline(cell.axes.backend);
    progress_.begin(name);
    return time_cell(cell, asked.round, context_, &residents_[asked.cell]);
  };
  ForkOutcome outcome = once();
  if (starved_step_) {
    crowding_.note_starved();
    const double step = *starved_step_;
    progress_.note(
        fmt::format("{}: given up, {}: its {} threads share processors with other work; again with fewer",
                    name, outcome.fork.reason, cell.axes.threads));
    outcome = once();
    name_starvation(cell, asked, outcome.fork, step);
  }
  if (outcome.fork.status == Status::ok) {
    name_starvation(cell, asked, outcome.fork, std::nullopt);
    crowding_.note(outcome.fork);
  }
  return outcome;
}

void ForkTimer::name_starvation(const Cell& cell, const ForkAsked& asked, Fork& fork,
                                std::optional<double> starved) {
  constexpr double min_ratio = 5;
  int round = asked.round;
  const auto time = fork_time(fork);
  if (fork.status != Status::ok || !time || named_.contains(asked.cell)) return;
  for (const Fork& other : asked.row->forks) {
    const auto slow = fork_time(other);
    if (other.status != Status::ok || !slow || !contains(other.flags, quality_flag::disturbed)) continue;
    if (starved && *starved >= slow->step_seconds) continue;
    starved = slow->step_seconds;
    round = other.round;
  }
  if (!starved || *starved < min_ratio * time->step_seconds) return;
  named_.insert(asked.cell);
  const int threads = cell.axes.threads;
  const int fewer = context_.threads.value_or(std::max(1, threads - 1));
  fork.warnings.push_back(fmt::format(
      "its {} shared processors with other work: a step took {} in round {}, and {} in this fork{}: {}stop other work",
      plural(threads, "thread"), duration_text(*starved), round + 1, duration_text(time->step_seconds),
      context_.threads ? fmt::format(", with --threads {}", fewer) : "",
      fewer < threads ? fmt::format("use --threads {}, or ", fewer) : ""));
}

}  // namespace assay
