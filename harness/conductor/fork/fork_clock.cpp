#include "harness/conductor/fork/fork_clock.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "harness/conductor/check/expected_tensors.hpp"
#include "harness/conductor/fork/quality.hpp"
#include "harness/core/error.hpp"
#include "harness/core/io/sha256.hpp"
#include "harness/core/text.hpp"
#include "harness/machine/cores.hpp"
#include "harness/report/fork_time.hpp"
#include "harness/report/invariants.hpp"
#include "harness/report/rank_blocks.hpp"

namespace assay {
namespace {

// NaNs can make kernels artificially fast, so reject forks whose loss is not finite.
void reject_divergence(Fork& fork) {
  for (const Block& block : fork.blocks) {
    if (!block.loss || std::isfinite(*block.loss)) continue;
    end_with(fork, ReasonCode::loss_not_finite,
             block.epoch > 0 ? fmt::format("the loss is not finite at the end of epoch {}", block.epoch)
                             : "the loss is not finite at the end of a block");
    return;
  }
}

std::int64_t bytes_of_results(const Graph& graph) {
  std::int64_t bytes = 0;
  for (const Graph::Output& output : graph.outputs()) bytes += graph.value(output.value).type.bytes();
  return bytes;
}

// Of the batches that a worker stages before its first block, and of what it reads after the last.
std::int64_t bytes_around_run(const Cell& cell) {
  const Graph& graph = cell.program->graph(cell.axes.task);
  const std::int64_t batches =
      cell.measure.epochs > 0 ? 1 : std::max<std::int64_t>(1, cell.measure.resident_batches);
  return batches * input_elements(graph) * std::int64_t{sizeof(float)} + state_bytes(*cell.program) +
         bytes_of_results(graph);
}

// Between two samples of the worker that saw no processor time.
double idle_seconds(const std::vector<MachineSample>& samples) {
  constexpr double idle_cores = 0.02;
  double seconds = 0;
  for (std::size_t i = 1; i < samples.size(); ++i)
    if (samples[i].worker_cpu < idle_cores)
      seconds += 1e-9 * static_cast<double>(samples[i].time_ns - samples[i - 1].time_ns);
  return seconds;
}

RunWindow window_of(const Cell& cell, const ConversationResult& result, const Member& member) {
  const std::vector<int>& cores = member.plan.worker.cores;  // none: all that may be used
  const std::size_t usable = member.place.is_launched() ? member.place.cores.size() : usable_cores().size();
  RunWindow window{.begin_ns = result.ran_between->begin_ns,
                   .end_ns = result.ran_between->end_ns,
                   .cpu_ns = result.run_cpu_ns,
                   .processors = static_cast<int>(cores.empty() ? usable : cores.size()),
                   .disturbance = result.run_disturbance,
                   .waited_ns = result.run_waited_ns,
                   .quota_stopped_ns = result.quota_stopped_ns,
                   .standstills = result.standstills};
  if (!cell.profile)
    window.handled_bytes = bytes_around_run(cell);  // a profile runs each operator after the steps
  window.result_bytes = bytes_of_results(cell.program->graph(cell.axes.task));
  if (window.disturbance) window.disturbance->seen_ns = result.run_others_ns;
  if (const auto& stepped = result.stepped_between) window.stepped_ns = {stepped->begin_ns, stepped->end_ns};
  return window;
}

// The disturbance of the rank that others disturbed most. It has no `seen_ns`, in which the other ranks are.
std::optional<Disturbance> largest_disturbance(const std::vector<ConversationResult>& results) {
  std::optional<Disturbance> largest;
  for (const ConversationResult& result : results)
    if (result.run_disturbance &&
        (!largest || result.run_disturbance->others_share() > largest->others_share()))
      largest = result.run_disturbance;
  return largest;
}

// Throws unless the fork has the requested timed blocks (or timed steps); a fork that counts epochs has one
// block per epoch.
void reject_other_plan(const Fork& fork, const MeasurePlan& plan) {
  std::int64_t blocks = 0, steps = 0;
  for (const Block& block : fork.blocks) {
    if (block.kind != BlockKind::timed) continue;
    ++blocks;
    if (__builtin_add_overflow(steps, block.steps, &steps))
      throw Error("results/clock.json: has more timed steps than can be counted");
  }
  const bool counts = plan.steps > 0 && plan.epochs == 0;
  const std::int64_t asked = plan.epochs > 0 ? plan.epochs : counts ? plan.steps : plan.blocks;
  const std::int64_t found = counts ? steps : blocks;
  if (found != asked)
    throw Error(fmt::format("results/clock.json: has {} timed {}, but {} were requested", found,
                            counts ? "steps" : "blocks", asked));
}

// Reads the measurements of one worker. If others are why its blocks cover too little, the disturbance is that of the
// window. Throws Error if they are impossible.
Fork read_member(const Fork& fork, const Cell& cell, const Member& member, const RunWindow& window) {
  Fork measured = fork;  // a copy, so that impossible numbers do not get into the report
  read_clock(member.folder / "results/clock.json", cell.has_loss(), measured);
  if (measured.disturbance)
    measured.disturbance->seen_ns = window.disturbance ? window.disturbance->seen_ns : std::nullopt;
  Violations violations("results/clock.json");
  validate_fork(violations, measured);
  if (!violations.found().empty()) throw Error(violations.found().front());
  reject_other_plan(measured, cell.measure);
  if (const std::string contradiction = contradiction_in_clock(measured, window); !contradiction.empty())
    throw Error(contradiction);
  measured.quota_stopped_ns = window.quota_stopped_ns;
  if (stopped_by_quota(window)) measured.flags.emplace_back(quality_flag::quota);
  warn_of_own_threads(measured, window, cell);
  if (waited_for_others(measured, window)) {
    measured.disturbance = window.disturbance;
    measured.flags.emplace_back(quality_flag::uncovered);
  }
  note_standstills(measured, window);
  return measured;
}

// Names the rank in an error.
Fork read_rank(const Fork& fork, const Cell& cell, const Member& member, const RunWindow& window) try {
  return read_member(fork, cell, member, window);
} catch (const Error& error) {
  throw Error(fmt::format("rank {}: {}", member.place.rank, error.what()));
}

// The digest that all ranks have; a digest of all if they differ.
std::string joined_digest(const std::vector<RankRecord>& ranks) {
  std::string all;
  bool same = true;
  for (const RankRecord& rank : ranks) {
    same = same && rank.parameters_digest == ranks.front().parameters_digest;
    all += rank.parameters_digest;
  }
  return same ? ranks.front().parameters_digest : sha256(all);
}

// Reads the measurements of all ranks. The evaluations are those of rank 0, as every rank evaluates all samples.
Fork read_ranks(const Fork& fork, const Cell& cell, const std::vector<Member>& members,
                const std::vector<ConversationResult>& results) {
  std::optional<Fork> all;
  std::vector<RankRecord> records;
  const std::optional<Disturbance> largest = largest_disturbance(results);
  bool waited = false;  // a rank for others
  for (std::size_t i = 0; i < members.size(); ++i) {
    RunWindow window = window_of(cell, results[i], members[i]);
    window.disturbance = largest;
    Fork own = read_rank(fork, cell, members[i], window);
    if (!all) all = own;
    waited = waited || contains(own.flags, quality_flag::uncovered);
    if (contains(own.flags, quality_flag::quota) && !contains(all->flags, quality_flag::quota))
      all->flags.emplace_back(quality_flag::quota);
    all->quota_stopped_ns = std::max(all->quota_stopped_ns, own.quota_stopped_ns);
    if (contains(own.flags, quality_flag::frozen) && !contains(all->flags, quality_flag::frozen)) {
      all->flags.emplace_back(quality_flag::frozen);
      all->warnings = own.warnings;
    }
    records.push_back(
        {.rank = members[i].place.rank,
         .cores = cores_of(members[i]),
         .blocks = std::move(own.blocks),
         .disturbance = own.disturbance,
         .compile_seconds = results[i].compiled->seconds,
         .host_peak_rss = results[i].peak_rss,
         .host_start_rss = results[i].start_rss,
         .parameters_digest = results[i].ran->state_digest,
         .host = results[i].host,
         .placement = results[i].placement,
         .samples = results[i].host.empty() ? std::vector<MachineSample>() : results[i].samples});
  }
  if (const std::string unlike = unlike_blocks(records); !unlike.empty()) throw Error(unlike);
  if (waited) {
    for (std::size_t i = 0; i < records.size(); ++i) records[i].disturbance = results[i].run_disturbance;
    if (!contains(all->flags, quality_flag::uncovered)) all->flags.emplace_back(quality_flag::uncovered);
  }
  all->blocks = joined_blocks(records);
  all->disturbance = joined_disturbance(records);
  all->parameters_digest = joined_digest(records);
  all->ranks = std::move(records);
  return *all;
}

}  // namespace

void take_clock(Fork& fork, const Cell& cell, const std::vector<Member>& members,
                const ConversationResult& result, const std::vector<ConversationResult>& results) try {
  if (members.size() == 1) {
    RunWindow window = window_of(cell, result, members.front());
    if (cell.axes.device == DeviceKind::cpu) window.idle_seconds = idle_seconds(fork.samples);
    fork = read_member(fork, cell, members.front(), window);
  } else {
    fork = read_ranks(fork, cell, members, results);
  }
  add_quality_flags(fork, cell);
  add_warnings(fork);
  reject_divergence(fork);
  if (result.strayed_to)
    end_with(
        fork, ReasonCode::processors_left,
        fmt::format("a thread of the worker may run on processor {}, outside the worker's processors ({})",
                    *result.strayed_to, cores_of(members)));
  else if (!result.confined_to.empty() && cell.axes.device == DeviceKind::cpu)
    end_with(fork, ReasonCode::processors_unused,
             fmt::format(
                 "the threads that compute may run only on processor {} of the worker's processors ({}): its "
                 "library or a variable of --environment pins them, such as OMP_PLACES",
                 cores_text(result.confined_to), cores_of(members)));
} catch (const Error& error) {
  end_with(fork, ReasonCode::clock_refused, error.what());
}

}  // namespace assay
