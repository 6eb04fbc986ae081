// Audits a finished run: the worker replays losses that it reported at the ends of blocks, and computes
// losses on batches of its framework's own loader.
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

// The end of a block: the number of steps since the begin of the run, and the loss that the worker reported.
struct ReportedLoss {
  std::int64_t steps = 0;
  double loss = 0;
};

struct RunAudit {
  std::vector<ReportedLoss> reported{};  // ascending; empty: nothing is replayed
  bool own_loader = false;               // the batches came from the framework's own loader
  bool deterministic = false;            // two runs of the same steps must have the same bits
};

// Chooses at random up to three ends of blocks, ascending, that a replay reaches in about a second by the
// time of the blocks. Empty if they reach none: even the first block may take longer.
std::vector<ReportedLoss> choose_replayed(std::span<const Block> blocks, std::uint64_t seed);

// The same of one of several ranks: after the same steps, what it reported at the ends of its own blocks.
RunAudit audit_of_rank(const RunAudit& audit, std::span<const Block> own);

// Whether a part of the check is made in a later fork, by the seed: in one of three. The first fork has all parts.
bool chosen_of_later_forks(std::uint64_t seed);

// Writes replay.json and loader.json into check/ of a cell folder, each if requested.
void write_audit(const std::filesystem::path& folder, const RunAudit& audit, const Precision& precision);

// "replay/<steps>": compares the reported loss with that of the replay, which waited for each step. Allowed
// is a share of the loss (of the loss after the first step, if larger), plus ten times the difference of two
// replays, if there are two. Rounding errors grow during training, so the share grows over 500 steps from
// 0.001 to 0.051 (0.01 to 0.11 for narrower storage). Replays that are missing or not finite are beyond
// measure.
//
// "loader/losses" (2, n): compares the mean loss on batches of the framework's own loader with that on staged
// batches of the same samples. Allowed are six standard deviations of the difference of two means of
// independent draws, plus 1 % of the loss.
std::vector<TensorVerdict> judge_audit(const TensorFile& worker, const RunAudit& audit,
                                       const Precision& precision);

}  // namespace assay
