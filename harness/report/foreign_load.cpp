#include "harness/report/foreign_load.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <vector>

#include "harness/core/statistics.hpp"
#include "harness/report/fork_time.hpp"

namespace assay {
namespace {

constexpr std::size_t min_shared_rounds = 4;
// In a shorter window the resolution of the kernel's counters hides max_taken.
constexpr std::int64_t min_window_ns = 340'000'000;

struct LowestOfRound {
  double share = 1;
  int forks = 0;
};

bool shows_load(const Fork& fork) {
  return fork.status == Status::ok && fork.disturbance && fork.disturbance->window_ns >= min_window_ns;
}

std::map<RoundKey, LowestOfRound> lowest_of_rounds(std::span<CellReport* const> group) {
  std::map<RoundKey, LowestOfRound> rounds;
  for (const CellReport* cell : group)
    for (const Fork& fork : cell->forks) {
      if (!shows_load(fork)) continue;
      LowestOfRound& round = rounds[round_of(fork)];
      round.share = std::min(round.share, fork.disturbance->others_share());
      ++round.forks;
    }
  return rounds;
}

double usual_share(const CellReport& cell, const std::map<RoundKey, LowestOfRound>& rounds) {
  std::vector<double> above;
  for (const Fork& fork : cell.forks) {
    if (!shows_load(fork)) continue;
    const LowestOfRound& round = rounds.at(round_of(fork));
    if (round.forks > 1) above.push_back(fork.disturbance->others_share() - round.share);
  }
  return above.size() < min_shared_rounds ? 0 : quantile(above, 0.25);
}

}  // namespace

bool mark_foreign_load(std::span<CellReport* const> group) {
  const std::map<RoundKey, LowestOfRound> rounds = lowest_of_rounds(group);
  bool changed = false;
  for (CellReport* cell : group) {
    const double usual = usual_share(*cell, rounds);
    for (Fork& fork : cell->forks) {
      if (!fork.disturbance) continue;
      const bool was = std::erase(fork.flags, quality_flag::disturbed) > 0;
      const bool is = fork.disturbance->others_share() - usual > max_taken;
      if (is) fork.flags.emplace_back(quality_flag::disturbed);
      changed = changed || was != is;
    }
  }
  return changed;
}

}  // namespace assay
