#include "harness/report/fork_time.hpp"

#include <algorithm>
#include <array>
#include <map>

#include "harness/core/statistics.hpp"
#include "harness/core/text.hpp"
#include "harness/report/core_placement.hpp"
#include "harness/report/foreign_load.hpp"

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

RoundKey round_of(const Fork& fork) { return {fork.session.value_or(0), fork.round}; }

namespace {

bool has_one_of(const Fork& fork, std::span<const char* const> flags) {
  return std::ranges::any_of(flags, [&](const char* flag) { return contains(fork.flags, flag); });
}

constexpr std::array machine_flags{quality_flag::disturbed, quality_flag::uncovered, quality_flag::frozen,
                                   quality_flag::placement};

}  // namespace

bool is_disturbed(const Fork& fork) { return has_one_of(fork, machine_flags); }

bool mark_disturbances(std::span<CellReport* const> group) {
  const bool placed = mark_worse_placed(group);
  return mark_foreign_load(group) || placed;
}

void mark_disturbances(std::vector<CellReport>& cells) {
  std::map<std::string, std::vector<CellReport*>> groups;
  for (CellReport& cell : cells) groups[group_title(cell.axes)].push_back(&cell);
  for (const auto& [title, group] : groups) mark_disturbances(group);
}

bool counts(const Fork& fork) {
  constexpr std::array others{quality_flag::quota, quality_flag::fewer_threads};
  return fork.status == Status::ok && !is_disturbed(fork) && !has_one_of(fork, others);
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

std::vector<std::string> quality_flags(const std::vector<Fork>& forks) {
  std::map<std::string, int> seen;
  int ok = 0, counted = 0, stopped = 0;
  for (const Fork& fork : forks) {
    if (fork.status == Status::ok) ++ok;
    if (fork.status == Status::ok && contains(fork.flags, quality_flag::quota)) ++stopped;
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
