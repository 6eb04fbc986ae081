// The time of one fork: from its raw blocks, and over its course.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harness/report/report.hpp"

namespace assay {

// From the raw blocks: which of them count, and which forks count.

// Cannot overflow, whatever a report contains.
inline double block_seconds(const Block& block) {
  return 1e-9 * (static_cast<double>(block.end_ns) - static_cast<double>(block.begin_ns));
}

// The timed blocks that have a duration and at least one step.
std::vector<const Block*> timed_blocks(const Fork& fork);
// The blocks of step_time: a fork that counts epochs leaves out its first one, which compiles and warms up,
// if there are more.
std::vector<const Block*> steady_blocks(const Fork& fork);

struct ForkTime {
  double step_seconds = 0;  // median over the steady blocks of time over steps
  double cpu_seconds = 0;   // the same of the CPU time
  std::int64_t steps = 0;   // of the steady blocks together
};
// The fork's value for the metric step_time. Nothing if no block was timed.
std::optional<ForkTime> fork_time(const Fork& fork);

// Forks of one round ran next to each other only if they are of one session, so this is what pairs them.
struct RoundKey {
  int session = 0, round = 0;
  auto operator<=>(const RoundKey&) const = default;
};
RoundKey round_of(const Fork& fork);

namespace quality_flag {
// A fork with one of these does not count, see counts().
inline constexpr const char* disturbed = "disturbed";  // other processes used the worker's processors
inline constexpr const char* placement = "placement";  // the host had them on one core, or far apart
inline constexpr const char* frozen = "frozen";        // it stood still: stopped, paused or suspended
inline constexpr const char* quota = "cpu_quota";      // the quota of the control group stopped it
// Its blocks do not cover its run, because other processes used its processors.
inline constexpr const char* uncovered = "uncovered";
// It had fewer threads than its cell, because the machine was busy.
inline constexpr const char* fewer_threads = "fewer_threads";
// These drop no fork.
inline constexpr const char* stolen = "stolen";              // the hypervisor took the processors
inline constexpr const char* throttled = "throttled";        // the GPU lowered its clocks
inline constexpr const char* profiled = "profiled";          // each operator was timed, which slows the steps
inline constexpr const char* unlike_hosts = "unlike_hosts";  // its ranks ran on machines that differ
}  // namespace quality_flag

// Whether the machine was disturbed while the fork was timed: it has the flag `disturbed`, `uncovered`, `frozen` or
// `placement`.
bool is_disturbed(const Fork& fork);

// Sets the flags `disturbed` (foreign_load.hpp) and `placement` (core_placement.hpp) of every fork of the group (cells
// with one group_title()) as they apply, and removes them from all others: what is usual follows from all forks of the
// group. Returns true if a fork's flag changed.
bool mark_disturbances(std::span<CellReport* const> group);
// The same for every group of a report.
void mark_disturbances(std::vector<CellReport>& cells);

// Whether the fork's times count: it is ok, and the machine did nothing to it, by its own flags. A round counts for a
// pair of cells if the forks of both count; what happened to a third cell does not matter.
bool counts(const Fork& fork);
// The time of a step, on average over the timed blocks; nothing if no block was timed.
std::optional<double> mean_step(const Fork& fork);
// The least time of a step, on average over the timed blocks, that the fork can have had without others: in the time that
// its threads waited for a processor (Disturbance::waited_ns, summed over threads) or the hypervisor took, the whole
// program may have stood still. 0 if that is more than all of its time; nothing if it is not known.
// docs/explanation/clock.md has the limits.
std::optional<double> undisturbed_step_at_least(const Fork& fork);

// The quality flags of a cell, from its forks: if none counts, `disturbed` or `cpu_quota`, and each other flag
// that more than half of the forks that count have. `stolen` is only a flag of forks, because the time that a
// hypervisor takes depends on how often a program waits.
std::vector<std::string> quality_flags(const std::vector<Fork>& forks);

// The forks of a cell's times: those that count. If none counts, all ok forks without the flag fewer_threads; if all have it, all
// of them.
std::vector<const Fork*> counted_forks(const CellReport& cell);
// The forks of values that a disturbed machine does not change (accuracy, memory): all ok forks.
std::vector<const Fork*> ok_forks(const CellReport& cell);

// The processor and the GPU during one fork, reduced to a number of points that can be drawn.

// Adjacent blocks of one kind. Seconds since the fork's first event.
struct Phase {
  std::string kind;  // "warm up", "timed", "epoch 3"
  double begin = 0, end = 0;
};

// If neighboring samples share a point, the highest counts.
struct Timeline {
  std::vector<Phase> phases;
  std::vector<double> times;  // seconds since the fork's first event
  std::vector<double> cpu;    // cores
  std::vector<double> gpu;    // 0..1; empty if no GPU was sampled
};

// At most 500 points and phases. Nothing if there are fewer than two samples.
std::optional<Timeline> timeline(const Fork& fork);

}  // namespace assay
