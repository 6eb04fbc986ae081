// Audits a finished run by what other programs computed: the losses of its first steps, what follows from the state
// that it left, and what its framework's own loader gives.
#pragma once

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harness/conductor/check/run_results.hpp"
#include "harness/conductor/check/tensor_file.hpp"
#include "harness/graph/passes/precision.hpp"
#include "harness/graph/program.hpp"
#include "harness/protocol/clock_file.hpp"
#include "harness/protocol/exam_files.hpp"
#include "harness/report/report.hpp"

namespace assay {

// The end of a block: the number of steps since the begin of the run, and the loss that the worker reported.
struct ReportedLoss {
  std::int64_t steps = 0;
  double loss = 0;
};

// A number that a worker reported, and what another backend computed from the same parameters, batches and rates.
struct Replayed {
  std::string name;  // "replay/<steps>", "evaluation/<split>/loss"
  double reported = 0, computed = 0, allowed = 0;

  bool within() const { return std::abs(reported - computed) <= allowed; }  // false if one is not a number
};

// The state that a run left, and what another backend makes of it in the first step of the continuation.
struct SteppedState {
  TensorFile before, after;
  double loss = 0;
};

// The same step from that state with other parameters, which are off by up to 1e-4: each number from 1 has its own signs.
// Empty: it cannot be computed.
using NudgedStep = std::function<std::optional<SteppedState>(int number)>;

struct RunAudit {
  std::vector<Replayed> replayed{};
  std::optional<Replayed> next_loss{};  // of the first step of the continuation, which the worker answers
  std::optional<SteppedState> next_state{};
  NudgedStep nudged_step{};    // asked where the worker's state is not that one
  std::string state{};         // why the state that it handed over is not that of the run; empty: it is
  std::string not_finite{};    // a tensor of that state with an infinite value or a NaN; empty: none
  bool own_loader = false;     // the batches came from the framework's own loader
  bool draws_masks = false;    // of dropout: then it may be unable to take the same steps again
  bool deterministic = false;  // two runs of the same steps must have the same bits
  std::optional<ExamExcerpt> excerpt{};  // of states after steps; absent: they are whole
  std::optional<RunResults> results{};   // what the run computed; absent: it trained a network
};

// The ends of blocks that a replay reaches in about a second by the time of the blocks, at most 1000 steps; at most eight,
// evenly chosen, with the last one. Empty if there are none after the first step, which the exam compares.
std::vector<ReportedLoss> replayable(std::span<const Block> blocks);

// What a replay may take.
inline constexpr double max_replay_seconds = 0.25;
// From parameters that are off by 1e-4, as long as a loss, or the state after the next step, is beyond what the earlier ones
// allow.
inline constexpr int max_nudged_replays = 8;

// The last of these numbers of steps (ascending) that a replay reaches in time; 0 if it reaches none.
std::int64_t affordable_steps(std::span<const std::int64_t> asked, double step_seconds);

// How far a reported loss may be from that of a replay, after as many steps: a share of the loss (of that after the
// first step, if it is larger), 1e-4 (0.01 for narrower storage), or ten times what parameters that are off by 1e-4
// change in the replay, if that is more, and at most 5 % (11 %). Absent if even three times as much is more than that: then
// rounding decides the loss.
std::optional<double> allowed_of_replay(double first, double here, double spread, const Precision& precision);

// Whether a part of the check is made in a later fork, by the seed: in one of three. The first fork has all parts.
bool chosen_of_later_forks(std::uint64_t seed);

// What a worker hands over of each tensor of a state of so many bytes after a step; absent: all of it. seed: the worker must
// not know it while it is timed.
std::optional<ExamExcerpt> excerpt_of(std::int64_t state_bytes, std::uint64_t seed);

// Writes run.json and excerpt.json into check/ of a cell folder, if they are requested. The worker may be there: throws
// IoError if it made such files.
void write_audit(const std::filesystem::path& cell_folder, const RunAudit& audit);

// Each of `replayed`; "continuation/loss" for `next_loss`. Numbers that are missing or not finite are beyond measure.
//
// "loader/samples" (2, n, B): in two passes of the framework's own loader, the numbers of the samples in each batch of a
// data set of n B + B / 2 samples, negative where a row is not a sample of the pass or has another label. In a pass, a
// sample comes once at most.
// "loader/order": the share of samples that are near their place in the data set; "loader/passes": the share of places
// that have the same sample in both passes. Half is allowed: a shuffled pass of 64 samples or more has about a tenth.
// "loader/losses" (2, steps): the losses of steps on batches of the framework's own loader, and of the same steps on staged
// batches with the same contents. They may be apart by 0.05 % (2 % for narrower storage) of the loss, or of that of the
// first step if it is larger.
// "loader/fit" (1 + passes, batches), only of a framework's own loop: the losses of the batches of a data set in its order,
// and those of each pass of the loop. Their means may be apart by 0.01 % (1 % for narrower storage). "loader/fit_order" and
// "loader/fit_passes": the share of places that have the loss of the data set's order, or the same one in both passes. Half
// is allowed. They are left out if the losses are alike.
// "loader/trained" (2), next to it: the loss of a sample after two passes of that loop on only this sample, and after the
// same steps without the loop. They may be apart like "loader/losses".
std::vector<TensorVerdict> judge_audit(const TensorFile& worker, const RunAudit& audit,
                                       const Precision& precision);

}  // namespace assay
