#include "harness/report/core_placement.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "harness/core/statistics.hpp"
#include "harness/report/fork_time.hpp"

namespace assay {
namespace {

// Between 1.4 (clocks that fall with the number of busy cores) and 2 (two loops on one core).
constexpr double shares_core = 1.5;
constexpr double much_slower = 1.3;  // on a machine whose clocks fall further
// A hop takes five times as long without a common cache, and differs by a fifth within one.
constexpr double far_apart = 2;

}  // namespace

CoreReading usual_of(std::span<const CoreReading> readings) {
  double slowdown = readings.front().slowdown;
  std::vector<double> apart, all;
  for (const CoreReading& reading : readings) {
    slowdown = std::min(slowdown, reading.slowdown);
    all.push_back(reading.hop_ns);
    if (reading.slowdown <= shares_core) apart.push_back(reading.hop_ns);
  }
  return {.slowdown = slowdown, .hop_ns = quantile(apart.empty() ? all : apart, 0.25)};
}

bool is_worse_placed(const CoreReading& reading, const CoreReading& usual) {
  if (reading.slowdown > shares_core) return reading.slowdown > much_slower * usual.slowdown;
  return reading.hop_ns > far_apart * usual.hop_ns;
}

bool mark_worse_placed(std::span<CellReport* const> group) {
  std::map<int, std::vector<CoreReading>> readings;  // by session
  for (const CellReport* cell : group)
    for (const Fork& fork : cell->forks)
      if (fork.placement) readings[fork.session.value_or(0)].push_back(fork.placement->before);
  std::map<int, CoreReading> usual;
  for (const auto& [session, known] : readings) usual[session] = usual_of(known);
  bool changed = false;
  for (CellReport* cell : group)
    for (Fork& fork : cell->forks) {
      if (!fork.placement) continue;
      const CoreReading& best = usual.at(fork.session.value_or(0));
      const bool was = std::erase(fork.flags, quality_flag::placement) > 0;
      const bool is = is_worse_placed(fork.placement->before, best);
      if (is) fork.flags.emplace_back(quality_flag::placement);
      changed = changed || was != is;
    }
  return changed;
}

UsualPlacement::UsualPlacement(std::span<const CellReport* const> cells) {
  std::map<std::string, std::vector<CoreReading>> readings;
  for (const CellReport* cell : cells)
    for (const Fork& fork : cell->forks)
      if (fork.placement) readings[group_title(cell->axes)].push_back(fork.placement->before);
  for (const auto& [group, known] : readings) usual_[group] = usual_of(known);
}

bool UsualPlacement::is_moved(const CellReport& cell, const Fork& fork) const {
  if (!fork.placement || usual_.empty()) return false;
  const auto usual = usual_.find(group_title(cell.axes));
  return usual != usual_.end() && (is_worse_placed(fork.placement->before, usual->second) ||
                                   is_worse_placed(fork.placement->after, usual->second));
}

}  // namespace assay
