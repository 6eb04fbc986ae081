// The time of a run: what --max-time still allows, and whether the machine is too busy for a ranking.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "harness/conductor/run/rounds.hpp"
#include "harness/report/report.hpp"

namespace assay {

// The callers give the present time, so that tests need not wait.
class Pace {
 public:
  using Clock = std::chrono::steady_clock;

  // max_seconds: of the whole run; 0: no limit.
  Pace(double max_seconds, Clock::time_point begin) : max_seconds_(max_seconds), begin_(begin) {}

  // When the run must have ended.
  std::optional<Clock::time_point> end() const;
  void took(std::size_t cell, double seconds) { seconds_[cell] = seconds; }
  // Whether forks that take as long as the last fork of their cell end in time. A cell without a fork counts as the mean of
  // the others; with no fork at all, a round may begin until the time is over.
  bool can_begin(std::span<const PlannedFork> forks, Clock::time_point now) const;
  // Seconds for each of the forks that are left in a round, if all get the same part of the time that is left.
  std::optional<double> fair_share(std::size_t forks_left, Clock::time_point now) const;
  // Between 0 and 1: the part of the time that is over; without a limit, the part of the forks.
  double part_over(Clock::time_point now, int done, int planned) const;

 private:
  double left(Clock::time_point now) const;

  double max_seconds_;
  Clock::time_point begin_;
  std::map<std::size_t, double> seconds_;  // of the last fork of a cell
};

// Seconds that another fork like the last one will take, which took `seconds`. In the process of that one, if processes
// stay, it need neither start nor compile.
double seconds_of_next(const Fork& last, double seconds, bool processes_stay);

// Says that too few undisturbed rounds can be expected for a ranking; empty if not. Only after a third of the run, and only
// if most rounds of a group of at least two cells were disturbed. `wanted`: the undisturbed rounds of a ranking.
std::string too_busy(const Report& report, int wanted, double part_over);

// What the forks of the cell's group have shown up to now, disturbed or not: "onednn graph, jax jit 5.4x"; empty for fewer
// than two timed cells.
std::string learnt(const Report& report, std::size_t cell);

}  // namespace assay
