#include "harness/conductor/run/crowding.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "harness/core/statistics.hpp"
#include "harness/core/text.hpp"
#include "harness/report/fork_time.hpp"

namespace assay {
namespace {

constexpr double min_waited = 0.5;

double share_of_window(const Fork& fork, std::int64_t ns) {
  return fork.disturbance->window_ns > 0
             ? static_cast<double>(ns) / static_cast<double>(fork.disturbance->window_ns)
             : 0;
}

}  // namespace

double waited_share(const Fork& fork) {
  if (!fork.disturbance || !fork.disturbance->waited_ns) return 0;
  return share_of_window(fork, *fork.disturbance->waited_ns);
}

Crowding::Crowding(std::size_t compared) : compared_(std::clamp<std::size_t>(compared, 2, 8)) {}

int Crowding::taken_processors() const {
  std::vector<double> taken;
  for (const Seen& seen : last_)
    if (seen.disturbed) taken.push_back(seen.taken);
  return taken.empty() ? 1 : std::max(1, static_cast<int>(std::lround(median(taken))));
}

void Crowding::note(const Fork& fork) {
  const bool disturbed =
      contains(fork.flags, quality_flag::disturbed) || contains(fork.flags, quality_flag::uncovered);
  if (!disturbed) left_out_ = 0;
  last_.push_back({disturbed, waited_share(fork),
                   fork.disturbance ? share_of_window(fork, fork.disturbance->others_ns) : 0});
  if (last_.size() > compared_) last_.pop_front();
  const bool busy = last_.size() == compared_ &&
                    std::ranges::all_of(last_, [](const Seen& seen) { return seen.disturbed; });
  const bool starved = std::ranges::any_of(last_, [](const Seen& seen) { return seen.waited >= min_waited; });
  if (left_out_ == 0 && busy && starved) left_out_ = taken_processors();
}

void Crowding::note_starved() {
  if (left_out_ == 0) left_out_ = taken_processors();
}

}  // namespace assay
