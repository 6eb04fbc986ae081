// What a worker is asked of its run when that is over: losses that it told at the ends of blocks, once more, and what its
// framework's own loader gives.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "harness/conductor/check/tensor_file.hpp"
#include "harness/graph/passes/precision.hpp"
#include "harness/graph/program.hpp"
#include "harness/protocol/clock_file.hpp"
#include "harness/report/report.hpp"

namespace assay {

// The end of a block: how many steps after the begin of the run, and the loss that the worker told there.
struct ToldLoss {
  std::int64_t steps = 0;
  double loss = 0;
};

struct RunAudit {
  std::vector<ToldLoss> told{};  // ascending; empty: nothing is replayed
  bool own_loader = false;       // the batches came from the framework's own loader
};

// Up to three ends of blocks, ascending, chosen at random from those that two replays reach in about two seconds, by the
// time of the blocks. Empty if there is none: the first block may take longer. resident: the process has already timed a
// fork of this cell, which was replayed; then one fork in three is, and which one depends on the seed.
std::vector<ToldLoss> choose_replayed(std::span<const Block> blocks, bool resident, std::uint64_t seed);

// Writes replay.json and loader.json into check/ of a cell folder, each where it is asked.
void write_audit(const std::filesystem::path& folder, const RunAudit& audit);

// "replay/<steps>": the told loss against that of the replay, which waited for each step. Allowed is a share of the loss
// (of that after the first step, where it is larger), and ten times what two replays are apart: training carries roundings
// away from each other, so the share grows over 500 steps from 0.001 to 0.051 (0.01 to 0.11 where storage is narrower).
// Replays that are missing or not finite are beyond measure.
//
// "loader/losses" (2, n): the mean of the losses on batches of the framework's own loader against that on staged batches
// of the same samples. Allowed are six standard deviations of the difference of two means of independent draws, and 1 % of
// the loss.
std::vector<TensorVerdict> judge_audit(const TensorFile& worker, const RunAudit& audit,
                                       const Precision& precision);

}  // namespace assay
