#include "harness/conductor/run/waiting.hpp"

#include <algorithm>

#include "harness/core/statistics.hpp"
#include "harness/core/text.hpp"
#include "harness/report/fork_time.hpp"

namespace assay {
namespace {

constexpr double min_waited = 0.25;

}  // namespace

Waiting::Waiting(std::size_t compared) : compared_(std::clamp<std::size_t>(compared, 2, 8)) {}

void Waiting::note(std::size_t cell, const Fork& fork) {
  const bool disturbed = contains(fork.flags, quality_flag::disturbed);
  if (!disturbed) starved_.clear();
  disturbed_.push_back(disturbed);
  if (disturbed_.size() > compared_) disturbed_.erase(disturbed_.begin());
  const auto time = fork_time(fork);
  if (!disturbed || !time) return;
  Times& times = times_[cell];
  const bool passive = contains(fork.flags, quality_flag::passive);
  (passive ? times.passive : times.own).push_back(time->step_seconds);
  if (!passive) times.waited = waited_share(fork) >= min_waited;
}

bool Waiting::is_busy() const {
  return disturbed_.size() == compared_ && std::ranges::all_of(disturbed_, [](bool is) { return is; });
}

bool Waiting::sleeps(std::size_t cell) const {
  if (starved_.contains(cell)) return true;
  const auto found = times_.find(cell);
  if (!is_busy() || found == times_.end() || found->second.own.empty()) return false;
  const Times& times = found->second;
  if (times.passive.empty()) return times.waited;
  return median(times.passive) < median(times.own);
}

double waited_share(const Fork& fork) {
  if (!fork.disturbance || !fork.disturbance->waited_ns || fork.disturbance->window_ns <= 0) return 0;
  return static_cast<double>(*fork.disturbance->waited_ns) / static_cast<double>(fork.disturbance->window_ns);
}

}  // namespace assay
