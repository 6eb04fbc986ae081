#include "harness/report/fork_time.hpp"

#include <algorithm>

#include "harness/core/statistics.hpp"
#include "harness/report/invariants.hpp"

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

std::vector<std::string> quality_flags(const std::vector<Fork>& forks) {
  const auto ok =
      std::count_if(forks.begin(), forks.end(), [](const Fork& fork) { return fork.status == Status::ok; });
  const auto clean =
      std::count_if(forks.begin(), forks.end(), [](const Fork& fork) { return is_clean(fork); });
  std::vector<std::string> flags;
  if (2 * clean >= ok) return flags;
  for (const Fork& fork : forks) {
    for (const std::string& flag : fork.flags) {
      if (std::find(flags.begin(), flags.end(), flag) == flags.end()) flags.push_back(flag);
    }
  }
  return flags;
}

std::vector<const Fork*> counted_forks(const CellReport& cell) {
  std::vector<const Fork*> clean, ok;
  for (const Fork& fork : cell.forks) {
    if (fork.status == Status::ok) ok.push_back(&fork);
    if (is_clean(fork)) clean.push_back(&fork);
  }
  return clean.empty() || !cell.flags.empty() ? ok : clean;
}

}  // namespace assay
