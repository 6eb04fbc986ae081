#include "harness/conductor/run/rounds.hpp"

#include <algorithm>
#include <array>
#include <set>

#include <fmt/format.h>

#include "harness/core/io/philox.hpp"
#include "harness/report/analysis.hpp"
#include "harness/report/fork_time.hpp"

namespace assay {
namespace {

constexpr std::array looks{6, 9, 13, 18, 25};
constexpr double max_equal_ratio = 1.02;

bool is_decided(const PairedRatio& ratio) {
  if (!ratio.lower || !ratio.upper) return false;
  return ratio.above_one() || ratio.below_one() ||
         (*ratio.upper <= max_equal_ratio && *ratio.lower >= 1 / max_equal_ratio);
}

// The cells in undecided pairs of neighbors in rank.
std::vector<std::size_t> undecided(const std::vector<std::size_t>& cells, const Report& report) {
  std::vector<std::pair<double, std::size_t>> ranked;
  for (const std::size_t cell : cells)
    if (const auto time = ranked_time(report.cells[cell])) ranked.emplace_back(*time, cell);
  std::sort(ranked.begin(), ranked.end());
  std::set<std::size_t> open;
  for (std::size_t i = 1; i < ranked.size(); ++i) {
    const auto ratio = time_ratio(report.cells[ranked[i].second], report.cells[ranked[i - 1].second]);
    if (ratio && is_decided(*ratio)) continue;
    open.insert(ranked[i - 1].second);
    open.insert(ranked[i].second);
  }
  return {open.begin(), open.end()};
}

}  // namespace

Rounds::Rounds(const std::vector<Cell>& cells, const RunSettings& settings) : settings_(settings) {
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (!cells[i].runnable()) continue;
    const std::string name = cells[i].group();
    auto group =
        std::find_if(groups_.begin(), groups_.end(), [&](const Group& other) { return other.name == name; });
    if (group == groups_.end()) group = groups_.insert(groups_.end(), Group{.name = name});
    group->active.push_back(i);
    group->target = settings.until == Until::clear ? looks.front() : settings.forks;
  }
}

std::vector<PlannedFork> Rounds::next(const Report& report) {
  std::vector<PlannedFork> forks;
  for (Group& group : groups_) {
    extend(group, report);
    if (group.begun >= group.target) continue;
    std::vector<std::size_t> order = group.active;
    Philox(settings_.seed, fmt::format("order/{}/{}", group.name, group.begun)).shuffle(std::span(order));
    for (const std::size_t cell : order) forks.push_back({cell, group.begun});
    ++group.begun;
  }
  given_.insert(given_.end(), forks.begin(), forks.end());
  return forks;
}

// Adds rounds if the begun ones are not enough.
void Rounds::extend(Group& group, const Report& report) const {
  if (group.begun < group.target || group.begun == 0) return;
  std::vector<const CellReport*> cells;
  for (const std::size_t cell : group.active) cells.push_back(&report.cells[cell]);
  const int disturbed = uncounted_forks(cells);
  if (settings_.until == Until::clear) return look(group, report, disturbed);
  group.target = settings_.forks + std::min(disturbed, settings_.spare_rounds);
}

void Rounds::look(Group& group, const Report& report, int disturbed) const {
  const int counted = group.begun - disturbed;
  if (group.looks < looks.size() && counted >= looks[group.looks]) {
    ++group.looks;
    group.active = undecided(group.active, report);
  }
  const bool ended = group.active.empty() || group.looks == looks.size();
  const int wanted = ended ? 0 : looks[group.looks] + std::min(disturbed, settings_.spare_rounds);
  group.target = std::max(group.begun, wanted);
}

std::vector<PlannedFork> Rounds::foreseen() const {
  std::vector<PlannedFork> forks = given_;
  for (const Group& group : groups_)
    for (int round = group.begun; round < group.target; ++round)
      for (const std::size_t cell : group.active) forks.push_back({cell, round});
  return forks;
}

}  // namespace assay
