// The blocks of a cell with several ranks, made of the ranks' own.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harness/report/report.hpp"

namespace assay {

// Describes the first difference between the ranks' blocks in number, kind, epoch or steps; empty if there is none.
std::string unlike_blocks(std::span<const RankRecord> ranks);

// Each block is that of the slowest rank (the longest; of several the first), because a step ends for all ranks when the
// last one has its gradients. Its loss is the mean of the ranks' losses, null if one of them is null. CPU times, switches,
// faults and stolen times are summed. Ranks on several machines have several clocks: then a block has that duration, and
// begins where the first rank has its own, or where the block before it ends, if that is later. Precondition: no
// unlike_blocks().
std::vector<Block> joined_blocks(std::span<const RankRecord> ranks);

// How much longer the slowest rank took for a step than the mean of all: the median over steady_blocks() of the one over
// the other. Nothing if the fork has no ranks, or no steady block. Precondition: its blocks are joined_blocks().
std::optional<double> rank_imbalance(const Fork& fork);

// The sums of the ranks, over the longest window; absent if one of them is unknown. Ranks that share a processor are other
// processes for each other.
std::optional<Disturbance> joined_disturbance(std::span<const RankRecord> ranks);

}  // namespace assay
