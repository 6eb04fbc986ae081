#include "harness/report/core_placement.hpp"

#include <algorithm>
#include <map>

#include "harness/core/text.hpp"
#include "harness/report/fork_time.hpp"

namespace assay {
namespace {

// Between 1.4 (clocks that fall with the number of busy cores) and 2 (two loops on one core).
constexpr double shares_core = 1.5;
// A hop takes five times as long without a common cache, and differs by a fifth within one.
constexpr double far_apart = 2;

}  // namespace

CoreReading better_of(const CoreReading& one, const CoreReading& other) {
  const bool one_shares = one.slowdown > shares_core, other_shares = other.slowdown > shares_core;
  if (one_shares != other_shares) return one_shares ? other : one;
  return {.slowdown = std::min(one.slowdown, other.slowdown), .hop_ns = std::min(one.hop_ns, other.hop_ns)};
}

bool is_worse_placed(const CoreReading& reading, const CoreReading& usual) {
  if (reading.slowdown > shares_core) return usual.slowdown <= shares_core;
  return reading.hop_ns > far_apart * usual.hop_ns;
}

bool mark_worse_placed(std::span<CellReport* const> group) {
  std::map<int, CoreReading> usual;  // by session
  for (const CellReport* cell : group)
    for (const Fork& fork : cell->forks) {
      if (!fork.placement) continue;
      for (const CoreReading& reading : {fork.placement->before, fork.placement->after}) {
        const auto [known, is_first] = usual.try_emplace(fork.session.value_or(0), reading);
        if (!is_first) known->second = better_of(known->second, reading);
      }
    }
  bool changed = false;
  for (CellReport* cell : group)
    for (Fork& fork : cell->forks) {
      if (!fork.placement) continue;
      const CoreReading& best = usual.at(fork.session.value_or(0));
      const bool was = std::erase(fork.flags, quality_flag::placement) > 0;
      const bool is =
          is_worse_placed(fork.placement->before, best) || is_worse_placed(fork.placement->after, best);
      if (is) fork.flags.emplace_back(quality_flag::placement);
      changed = changed || was != is;
    }
  return changed;
}

}  // namespace assay
