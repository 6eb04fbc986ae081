#include "harness/report/rank_blocks.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>

#include <fmt/format.h>

#include "harness/core/statistics.hpp"
#include "harness/report/fork_time.hpp"

namespace assay {
namespace {

// A report may have any numbers.
void add_saturated(std::int64_t& sum, std::int64_t value) {
  if (__builtin_add_overflow(sum, value, &sum)) sum = INT64_MAX;
}

Block joined_block(std::span<const RankRecord> ranks, std::size_t number) {
  const Block* slowest = &ranks.front().blocks[number];
  for (const RankRecord& rank : ranks)
    if (block_seconds(rank.blocks[number]) > block_seconds(*slowest)) slowest = &rank.blocks[number];
  Block all = *slowest;
  all.cpu_ns = all.involuntary_switches = all.major_faults = all.steal_ns = 0;
  all.minor_faults = 0;
  all.accuracy.reset();
  std::optional<double> losses = 0;
  for (const RankRecord& rank : ranks) {
    const Block& own = rank.blocks[number];
    add_saturated(all.cpu_ns, own.cpu_ns);
    add_saturated(all.involuntary_switches, own.involuntary_switches);
    add_saturated(all.major_faults, own.major_faults);
    add_saturated(all.steal_ns, own.steal_ns);
    if (own.minor_faults && all.minor_faults)
      add_saturated(*all.minor_faults, *own.minor_faults);
    else
      all.minor_faults.reset();
    if (own.loss && losses)
      *losses += *own.loss;
    else
      losses.reset();
  }
  all.loss = losses;
  if (all.loss) *all.loss /= static_cast<double>(ranks.size());
  return all;
}

}  // namespace

std::string unlike_blocks(std::span<const RankRecord> ranks) {
  for (const RankRecord& rank : ranks) {
    const std::vector<Block>&first = ranks.front().blocks, &own = rank.blocks;
    if (own.size() != first.size())
      return fmt::format("rank {} has {} blocks, and rank {} has {}", ranks.front().rank, first.size(),
                         rank.rank, own.size());
    for (std::size_t i = 0; i < own.size(); ++i)
      if (own[i].kind != first[i].kind || own[i].epoch != first[i].epoch || own[i].steps != first[i].steps)
        return fmt::format(
            "block {} of rank {} has another kind, epoch or number of steps than that of rank {}", i,
            rank.rank, ranks.front().rank);
  }
  return {};
}

namespace {

// Moves a block of another machine's clock to where the first rank has its own, after the previous one.
void put_on_first_clock(Block& block, const Block& of_first, const std::vector<Block>& earlier) {
  const std::int64_t taken_ns = block.end_ns - block.begin_ns;
  block.begin_ns = earlier.empty() ? of_first.begin_ns : std::max(of_first.begin_ns, earlier.back().end_ns);
  block.end_ns = block.begin_ns;
  add_saturated(block.end_ns, taken_ns);
}

}  // namespace

std::vector<Block> joined_blocks(std::span<const RankRecord> ranks) {
  std::vector<Block> blocks;
  for (std::size_t i = 0; !ranks.empty() && i < ranks.front().blocks.size(); ++i) {
    Block block = joined_block(ranks, i);
    if (!ranks.front().host.empty()) put_on_first_clock(block, ranks.front().blocks[i], blocks);
    blocks.push_back(block);
  }
  return blocks;
}

std::optional<double> rank_imbalance(const Fork& fork) {
  std::vector<double> ratios;
  for (const Block* block : steady_blocks(fork)) {
    const auto number = static_cast<std::size_t>(block - fork.blocks.data());
    double sum = 0;
    for (const RankRecord& rank : fork.ranks) {
      if (rank.blocks.size() != fork.blocks.size()) return std::nullopt;
      sum += block_seconds(rank.blocks[number]);
    }
    if (sum > 0) ratios.push_back(block_seconds(*block) * static_cast<double>(fork.ranks.size()) / sum);
  }
  if (ratios.empty()) return std::nullopt;
  return median(ratios);
}

std::optional<Disturbance> joined_disturbance(std::span<const RankRecord> ranks) {
  Disturbance all{.waited_ns = 0};
  for (const RankRecord& rank : ranks) {
    if (!rank.disturbance) return std::nullopt;
    all.processors += rank.disturbance->processors;
    all.window_ns = std::max(all.window_ns, rank.disturbance->window_ns);
    all.own_ns += rank.disturbance->own_ns;
    all.others_ns += rank.disturbance->others_ns;
    all.steal_ns += rank.disturbance->steal_ns;
    if (all.waited_ns && rank.disturbance->waited_ns)
      add_saturated(*all.waited_ns, *rank.disturbance->waited_ns);
    else
      all.waited_ns.reset();
  }
  return all;
}

}  // namespace assay
