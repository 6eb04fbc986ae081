#include "harness/conductor/run/rounds.hpp"

#include <algorithm>
#include <array>
#include <set>

#include <fmt/format.h>

#include "harness/conductor/run/cell_report.hpp"
#include "harness/core/io/philox.hpp"
#include "harness/report/analysis.hpp"
#include "harness/report/fork_time.hpp"
#include "harness/report/invariants.hpp"

namespace assay {
namespace {

constexpr std::array looks{6, 9, 13, 18, 25};
constexpr double max_equal_ratio = 1.02;

bool is_within_equal(const PairedRatio& ratio) {
  return ratio.lower && ratio.upper && *ratio.upper <= max_equal_ratio && *ratio.lower >= 1 / max_equal_ratio;
}

bool is_decided(const std::optional<PairedRatio>& ratio) {
  return ratio && ratio->lower && (ratio->above_one() || ratio->below_one() || is_within_equal(*ratio));
}

// Whether only undisturbed rounds are missing for a rank.
bool may_be_ranked(const CellReport& cell) {
  const bool other_flags = std::ranges::any_of(cell.flags, [](const std::string& flag) {
    return flag != quality_flag::disturbed && flag != quality_flag::quota;
  });
  return !other_flags && is_equal_to_oracle(cell);
}

bool is_too_disturbed(const SharedRounds& shared) {
  constexpr int min_seen = 24;
  return shared.all >= min_seen && 4 * shared.counting < shared.all;
}

}  // namespace

Rounds::Rounds(const std::vector<Cell>& cells, const RunSettings& settings, const Report& report)
    : cells_(cells), settings_(settings) {
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (!cells[i].runnable()) continue;
    const std::string name = cells[i].group();
    auto group =
        std::find_if(groups_.begin(), groups_.end(), [&](const Group& other) { return other.name == name; });
    if (group == groups_.end()) group = groups_.insert(groups_.end(), Group{.name = name});
    group->cells.push_back(i);
  }
  for (Group& group : groups_)
    for (std::size_t i = 0; i < group.cells.size(); ++i)
      for (std::size_t j = 0; j <= i; ++j) group.pairs.push_back({.a = group.cells[i], .b = group.cells[j]});
  join_compared(report);
  for (Group& group : groups_) {
    for (const std::size_t cell : group.cells)
      for (const Fork& fork : report.cells[cell].forks)
        group.next_round = std::max(group.next_round, fork.round + 1);
    for (Pair& pair : group.pairs) pair.begun = shared_rounds(report.cells[pair.a], report.cells[pair.b]).all;
    plan(group, report);
  }
}

void Rounds::join_compared(const Report& report) {
  const auto group_of = [&](std::size_t cell) {
    return std::ranges::find_if(groups_, [&](const Group& group) {
      return std::ranges::find(group.cells, cell) != group.cells.end();
    });
  };
  for (std::size_t a = 0; a < cells_.size(); ++a) {
    for (const Published& published : report.cells[a].published) {
      if (!published.to) continue;
      const auto row = std::ranges::find(report.cells, *published.to, &CellReport::id);
      const auto b = static_cast<std::size_t>(row - report.cells.begin());
      const auto into = group_of(a), from = group_of(b);
      if (into == groups_.end() || from == groups_.end()) continue;
      const auto is_theirs = [&](const Pair& pair) {
        return (pair.a == a && pair.b == b) || (pair.a == b && pair.b == a);
      };
      if (std::ranges::none_of(into->pairs, is_theirs)) into->pairs.push_back({.a = a, .b = b});
      if (into == from) continue;
      into->cells.insert(into->cells.end(), from->cells.begin(), from->cells.end());
      into->pairs.insert(into->pairs.end(), from->pairs.begin(), from->pairs.end());
      groups_.erase(from);
    }
  }
}

std::vector<PlannedFork> Rounds::next(const Report& report) {
  std::vector<PlannedFork> forks;
  for (Group& group : groups_) {
    plan(group, report);
    if (group.active.empty()) continue;
    std::vector<std::size_t> order = group.active;
    Philox(settings_.seed, fmt::format("order/{}/{}", group.name, group.next_round))
        .shuffle(std::span(order));
    for (const std::size_t cell : order) forks.push_back({cell, group.next_round});
    ++group.next_round;
    --group.left;
    const std::set<std::size_t> running(group.active.begin(), group.active.end());
    for (Pair& pair : group.pairs)
      if (running.contains(pair.a) && running.contains(pair.b)) ++pair.begun;
  }
  given_.insert(given_.end(), forks.begin(), forks.end());
  return forks;
}

void Rounds::plan(Group& group, const Report& report) {
  std::set<std::size_t> active;
  group.left = 0;
  for (Pair& pair : group.pairs) {
    const int left = rounds_left(pair, report);
    group.left = std::max(group.left, left);
    if (left > 0) active.insert({pair.a, pair.b});
  }
  group.active.assign(active.begin(), active.end());
}

// At least; 0: the pair needs no more.
int Rounds::rounds_left(Pair& pair, const Report& report) const {
  const CellReport &a = report.cells[pair.a], &b = report.cells[pair.b];
  for (const std::size_t cell : {pair.a, pair.b})
    if (!cells_[cell].runnable() || gives_up(report.cells[cell], cells_[cell])) return 0;
  const SharedRounds shared = shared_rounds(a, b);
  const int lost = shared.ok - shared.counting;
  if (settings_.until == Until::forks) {
    const int spare = shared.counting == 0 ? (settings_.spare_rounds + 2) / 3 : settings_.spare_rounds;
    return std::max(0, settings_.forks + std::min(lost, spare) - pair.begun);
  }
  if (!may_be_ranked(a) || !may_be_ranked(b)) return std::max(0, looks.front() - pair.begun);
  if (is_too_disturbed(shared)) return 0;
  const bool single = pair.a == pair.b;
  const auto ratio = single ? std::nullopt : time_ratio(a, b);
  for (; pair.looks < looks.size() && shared.counting >= looks[pair.looks]; ++pair.looks)
    pair.settled = single || is_decided(ratio);
  if (pair.looks == looks.size() || (pair.settled && (single || is_decided(ratio)))) return 0;
  // A fork that fails is not repeated.
  return std::max(0, looks[pair.looks] + lost - pair.begun);
}

std::vector<GroupEnd> Rounds::ends(const Report& report, bool interrupted) const {
  std::vector<GroupEnd> found;
  if (settings_.until != Until::clear) return found;
  for (const Group& group : groups_) {
    bool equal = false, open = false, disturbed = false, undecided = false, any = false;
    for (Pair pair : group.pairs) {
      const CellReport &a = report.cells[pair.a], &b = report.cells[pair.b];
      if (pair.a == pair.b || !may_be_ranked(a) || !may_be_ranked(b)) continue;
      any = true;
      const auto ratio = time_ratio(a, b);
      if (is_decided(ratio)) {
        equal = equal || (!ratio->above_one() && !ratio->below_one());
        continue;
      }
      const SharedRounds shared = shared_rounds(a, b);
      undecided = true;
      open = open || rounds_left(pair, report) > 0;
      disturbed = disturbed || 2 * shared.counting < shared.ok;
    }
    if (!any) continue;
    const HowEnded how = !undecided    ? (equal ? HowEnded::equal : HowEnded::clear)
                         : interrupted ? HowEnded::interrupted
                         : disturbed   ? HowEnded::disturbed
                         : open        ? HowEnded::time
                                       : HowEnded::rounds;
    found.push_back({group_title(report.cells[group.cells.front()].axes), how});
  }
  return found;
}

std::vector<PlannedFork> Rounds::foreseen() const {
  std::vector<PlannedFork> forks = given_;
  for (const Group& group : groups_)
    for (int i = 0; i < group.left; ++i)
      for (const std::size_t cell : group.active) forks.push_back({cell, group.next_round + i});
  return forks;
}

}  // namespace assay
