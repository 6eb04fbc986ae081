#include <cmath>
#include <cstdint>

#include <fmt/format.h>

#include "harness/core/text.hpp"
#include "harness/report/fork_time.hpp"
#include "harness/report/invariants.hpp"
#include "harness/report/rank_blocks.hpp"

namespace assay {
namespace {

void validate_blocks(Violations& violations, const std::vector<Block>& blocks) {
  std::int64_t last_end = INT64_MIN;
  bool timed = false;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const Block& block = blocks[i];
    const auto add = [&](const std::string& what) { violations.add(fmt::format("block {}: {}", i, what)); };
    if (block.end_ns <= block.begin_ns)
      add(fmt::format("ends at {} ns, begins at {} ns", block.end_ns, block.begin_ns));
    if (block.begin_ns < last_end) add("begins before the previous block ends");
    if (block.end_ns > block.begin_ns && 1e-9 * static_cast<double>(block.wait_ns) > block_seconds(block))
      add(fmt::format("waits {} ns for the loader, longer than it lasts", block.wait_ns));
    if (block.wait_ns < 0) add("waits a negative time");
    if (block.minor_faults && *block.minor_faults < 0) add("has a negative number of page faults");
    if (block.accuracy && !(*block.accuracy >= 0 && *block.accuracy <= 1))
      add(fmt::format("has a running accuracy of {}", *block.accuracy));
    if (block.enqueue_ns < 0) add("enqueues its steps in a negative time");
    if (block.end_ns > block.begin_ns && block.enqueue_ns > block.end_ns - block.begin_ns)
      add(fmt::format("enqueues its steps for {} ns, longer than it lasts", block.enqueue_ns));
    if (block.steps < 1) add(fmt::format("has {} steps", block.steps));
    if (block.kind == BlockKind::warm_up && timed && block.epoch == 0)
      add("is a warm-up after a timed block");
    timed |= block.kind == BlockKind::timed;
    last_end = block.end_ns;
  }
}

bool is_same(const Block& a, const Block& b) {
  const double apart = a.loss && b.loss ? std::abs(*a.loss - *b.loss) : 0;
  return a.begin_ns == b.begin_ns && a.end_ns == b.end_ns && a.cpu_ns == b.cpu_ns &&
         a.loss.has_value() == b.loss.has_value() && !(apart > 1e-9 * std::abs(a.loss.value_or(0)));
}

void validate_ranks(Violations& violations, const Fork& fork) {
  if (fork.ranks.empty()) return;
  if (fork.ranks.size() == 1) violations.add("has one rank, which must be left out");
  for (std::size_t rank = 0; rank < fork.ranks.size(); ++rank) {
    Violations inner = violations.within(fmt::format("rank {}", rank));
    if (fork.ranks[rank].rank != static_cast<int>(rank))
      inner.add(fmt::format("has the number {}", fork.ranks[rank].rank));
    validate_blocks(inner, fork.ranks[rank].blocks);
    if (const auto& exchange = fork.ranks[rank].exchange)
      if (const std::string why = contradiction(*exchange); !why.empty()) inner.add(why);
    violations.take(inner);
  }
  if (const std::string unlike = unlike_blocks(fork.ranks); !unlike.empty()) return violations.add(unlike);
  const std::vector<Block> joined = joined_blocks(fork.ranks);
  if (joined.size() != fork.blocks.size())
    return violations.add(
        fmt::format("has {}, but its ranks have {}", plural(fork.blocks.size(), "block"), joined.size()));
  for (std::size_t i = 0; i < joined.size(); ++i)
    if (!is_same(fork.blocks[i], joined[i]))
      violations.add(fmt::format("block {} is not that of the slowest rank with the mean loss of all", i));
}

void validate_evaluations(Violations& violations, const Fork& fork) {
  for (const Evaluation& evaluation : fork.evaluations) {
    const auto add = [&](const std::string& what) {
      violations.add(fmt::format("evaluation of {} after epoch {}: {}", to_string(evaluation.split),
                                 evaluation.epoch, what));
    };
    if (!(evaluation.accuracy >= 0 && evaluation.accuracy <= 1))
      add(fmt::format("accuracy {} is outside 0 to 1", evaluation.accuracy));
    if (evaluation.samples < 1) add(fmt::format("{} samples", evaluation.samples));
    if (evaluation.loss < 0) add(fmt::format("cross-entropy {} is negative", evaluation.loss));
    if (!(evaluation.seconds >= 0)) add(fmt::format("took {} s", evaluation.seconds));
    const double right = evaluation.accuracy * static_cast<double>(evaluation.samples);
    if (std::abs(right - std::round(right)) > 1e-6 * static_cast<double>(evaluation.samples) + 1e-6)
      add(fmt::format("accuracy {} is not a whole number of its {} samples", evaluation.accuracy,
                      evaluation.samples));
  }
}

void validate_gpu(Violations& violations, const MachineSample& sample) {
  if (!sample.gpu) return;
  const GpuReading& gpu = *sample.gpu;
  const auto add = [&](const char* what, auto value) {
    violations.add(fmt::format("the sample at {} ns: {} {}", sample.time_ns, what, value));
  };
  if (gpu.utilisation && !(*gpu.utilisation >= 0 && *gpu.utilisation <= 1))
    add("a utilisation of the GPU of", *gpu.utilisation);
  if (gpu.worker_memory && *gpu.worker_memory < 0)
    add("the worker's bytes on the GPU are", *gpu.worker_memory);
  if (gpu.device_memory && *gpu.device_memory < 0) add("the GPU's bytes in use are", *gpu.device_memory);
}

}  // namespace

void validate_code(Violations& violations, Status status, ReasonCode code) {
  if (code != ReasonCode::absent && status_of(code) != status)
    violations.add(fmt::format("is {} with the reason code '{}', which means {}", to_string(status),
                               to_string(code), to_string(status_of(code))));
}

void validate_fork(Violations& violations, const Fork& fork) {
  if (fork.status != Status::ok && fork.reason.empty())
    violations.add(fmt::format("is {} without a reason", to_string(fork.status)));
  validate_code(violations, fork.status, fork.reason_code);
  validate_blocks(violations, fork.blocks);
  validate_ranks(violations, fork);
  if (fork.device_timed)
    if (const std::string why = contradiction(*fork.device_timed); !why.empty()) violations.add(why);
  validate_evaluations(violations, fork);
  std::int64_t last = INT64_MIN;
  for (const MachineSample& sample : fork.samples) {
    if (sample.time_ns < last)
      violations.add(fmt::format("the sample at {} ns comes after a later one", sample.time_ns));
    last = sample.time_ns;
    validate_gpu(violations, sample);
  }
  for (const auto* latencies : {&fork.latencies_ns, &fork.prefills_ns})
    for (const std::int64_t latency : *latencies)
      if (latency < 0) {
        violations.add(fmt::format("a latency of {} ns", latency));
        break;
      }
  for (const auto& [name, bytes] : fork.memory)
    if (bytes < 0) violations.add(fmt::format("memory {} is {} bytes", name, bytes));
}

}  // namespace assay
