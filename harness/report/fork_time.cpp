#include "harness/report/fork_time.hpp"

#include <algorithm>
#include <array>
#include <map>

#include "harness/core/statistics.hpp"
#include "harness/core/text.hpp"
#include "harness/report/core_placement.hpp"

namespace assay {

std::vector<const Block*> timed_blocks(const Fork& fork) {
  std::vector<const Block*> timed;
  for (const Block& block : fork.blocks)
    if (block.kind == BlockKind::timed && block.steps > 0 && block.end_ns > block.begin_ns)
      timed.push_back(&block);
  return timed;
}

std::vector<const Block*> steady_blocks(const Fork& fork) {
  std::vector<const Block*> timed = timed_blocks(fork);
  int last_epoch = 0;
  for (const Block* block : timed) last_epoch = std::max(last_epoch, block->epoch);
  if (last_epoch > 1) std::erase_if(timed, [](const Block* block) { return block->epoch == 1; });
  return timed;
}

std::optional<ForkTime> fork_time(const Fork& fork) {
  std::vector<double> steps, cpu;
  std::int64_t sum = 0;
  for (const Block* block : steady_blocks(fork)) {
    const double count = static_cast<double>(block->steps);
    steps.push_back(block_seconds(*block) / count);
    cpu.push_back(1e-9 * static_cast<double>(block->cpu_ns) / count);
    if (__builtin_add_overflow(sum, block->steps, &sum)) sum = INT64_MAX;
  }
  if (steps.empty()) return std::nullopt;
  return ForkTime{median(steps), median(cpu), sum};
}

bool is_disturbed(const Fork& fork) {
  return contains(fork.flags, quality_flag::disturbed) || contains(fork.flags, quality_flag::frozen) ||
         contains(fork.flags, quality_flag::placement);
}

namespace {

// The observations of a round's forks.
struct Votes {
  int forks = 0, stolen = 0;
  bool disturbed = false, quota = false;
};

// A single fork cannot show whether the hypervisor takes time or the program often waits for it.
bool was_disturbed(const Votes& votes) {
  return votes.disturbed || (votes.stolen > 1 && 2 * votes.stolen > votes.forks);
}

std::map<int, Votes> votes_of(std::span<CellReport* const> group) {
  std::map<int, Votes> rounds;
  for (const CellReport* cell : group)
    for (const Fork& fork : cell->forks) {
      Votes& votes = rounds[fork.round];
      if (fork.status == Status::ok) ++votes.forks;
      if (contains(fork.flags, quality_flag::stolen)) ++votes.stolen;
      if (contains(fork.flags, quality_flag::disturbed) || contains(fork.flags, quality_flag::frozen))
        votes.disturbed = true;
      if (contains(fork.flags, quality_flag::quota)) votes.quota = true;
    }
  return rounds;
}

// Sets or removes a flag; returns true if it changed.
bool set_flag(Fork& fork, const char* flag, bool is) {
  const bool was = std::erase(fork.flags, flag) > 0;
  if (is) fork.flags.emplace_back(flag);
  return was != is;
}

}  // namespace

bool mark_disturbances(std::span<CellReport* const> group) {
  bool changed = mark_worse_placed(group);
  const std::map<int, Votes> rounds = votes_of(group);
  for (CellReport* cell : group)
    for (Fork& fork : cell->forks) {
      const Votes& votes = rounds.at(fork.round);
      changed = set_flag(fork, quality_flag::disturbed_round, was_disturbed(votes)) || changed;
      changed = set_flag(fork, quality_flag::quota_round, votes.quota) || changed;
    }
  return changed;
}

void mark_disturbances(std::vector<CellReport>& cells) {
  std::map<std::string, std::vector<CellReport*>> groups;
  for (CellReport& cell : cells) groups[group_title(cell.axes)].push_back(&cell);
  for (const auto& [title, group] : groups) mark_disturbances(group);
}

bool counts(const Fork& fork) {
  return fork.status == Status::ok &&
         std::ranges::none_of(std::array{quality_flag::disturbed_round, quality_flag::quota_round,
                                         quality_flag::placement, quality_flag::fewer_threads},
                              [&](const char* flag) { return contains(fork.flags, flag); });
}

namespace {

// Of the timed blocks.
struct Sums {
  double seconds = 0, steps = 0;
};
Sums sums_of(const Fork& fork) {
  Sums sums;
  for (const Block* block : timed_blocks(fork)) {
    sums.seconds += block_seconds(*block);
    sums.steps += static_cast<double>(block->steps);
  }
  return sums;
}

}  // namespace

std::optional<double> mean_step(const Fork& fork) {
  const Sums sums = sums_of(fork);
  return sums.steps > 0 ? std::optional(sums.seconds / sums.steps) : std::nullopt;
}

std::optional<double> undisturbed_step_at_least(const Fork& fork) {
  const Sums sums = sums_of(fork);
  if (sums.steps == 0 || !fork.disturbance || !fork.disturbance->waited_ns) return std::nullopt;
  const double lost = 1e-9 * (static_cast<double>(*fork.disturbance->waited_ns) +
                              static_cast<double>(std::max<std::int64_t>(0, fork.disturbance->steal_ns)));
  return std::max(0.0, sums.seconds - lost) / sums.steps;
}

int uncounted_forks(std::span<const CellReport* const> cells) {
  std::ptrdiff_t most = 0;
  for (const CellReport* cell : cells)
    most = std::max(most, std::ranges::count_if(cell->forks, [](const Fork& fork) {
                      return fork.status == Status::ok && !counts(fork);
                    }));
  return static_cast<int>(most);
}

std::vector<std::string> quality_flags(const std::vector<Fork>& forks) {
  std::map<std::string, int> seen;
  int ok = 0, counted = 0, stopped = 0;
  for (const Fork& fork : forks) {
    if (fork.status == Status::ok) ++ok;
    if (fork.status == Status::ok && contains(fork.flags, quality_flag::quota_round)) ++stopped;
    if (!counts(fork)) continue;
    ++counted;
    for (const std::string& flag : fork.flags)
      if (flag != quality_flag::stolen) ++seen[flag];
  }
  std::vector<std::string> flags;
  if (ok > 0 && counted == 0 && stopped > 0) flags.emplace_back(quality_flag::quota);
  if (ok > 0 && counted == 0 && stopped < ok) flags.emplace_back(quality_flag::disturbed);
  for (const auto& [flag, number] : seen)
    if (2 * number > counted) flags.push_back(flag);
  return flags;
}

std::vector<const Fork*> ok_forks(const CellReport& cell) {
  std::vector<const Fork*> ok;
  for (const Fork& fork : cell.forks)
    if (fork.status == Status::ok) ok.push_back(&fork);
  return ok;
}

std::vector<const Fork*> counted_forks(const CellReport& cell) {
  std::vector<const Fork*> counted;
  for (const Fork& fork : cell.forks)
    if (counts(fork)) counted.push_back(&fork);
  if (!counted.empty()) return counted;
  std::vector<const Fork*> ok = ok_forks(cell);
  const auto has_fewer = [](const Fork* fork) { return contains(fork->flags, quality_flag::fewer_threads); };
  if (!std::ranges::all_of(ok, has_fewer)) std::erase_if(ok, has_fewer);
  return ok;
}

}  // namespace assay
