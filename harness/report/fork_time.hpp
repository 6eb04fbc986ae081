// The time of one fork: from its raw blocks, and over its course.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "harness/report/report.hpp"

namespace assay {

// From its raw blocks: which of them count, and which forks do.

// Without overflow, whatever a report says.
inline double block_seconds(const Block& block) {
  return 1e-9 * (static_cast<double>(block.end_ns) - static_cast<double>(block.begin_ns));
}

// The timed blocks that lasted and had a step.
std::vector<const Block*> timed_blocks(const Fork& fork);
// Those behind step_time: of a fork that counts epochs the first one, which compiles and warms up, is left
// out when there are more.
std::vector<const Block*> steady_blocks(const Fork& fork);

struct ForkTime {
  double step_seconds = 0;  // median over the steady blocks of time over steps
  double cpu_seconds = 0;   // the same of the CPU time
  std::int64_t steps = 0;   // of the steady blocks together
};
// What the metric step_time is the median of. Nothing where no block was timed.
std::optional<ForkTime> fork_time(const Fork& fork);

namespace quality_flag {
inline constexpr const char* disturbed = "disturbed";  // other processes used the worker's processors
inline constexpr const char* stolen = "stolen";        // the hypervisor took them
inline constexpr const char* disturbed_round = "disturbed_round";
inline constexpr const char* throttled = "throttled";  // the GPU lowered its clocks
inline constexpr const char* profiled = "profiled";    // each operator was timed, which slows the steps
}  // namespace quality_flag

// A round in which the machine was disturbed does not count, for any of the cells that are compared: a fork is never
// dropped for something that its own program does. Sets the flag disturbed_round of every fork in such a round of the
// group (cells with one group_title()), and removes it from all others: one in which a fork is disturbed, or in which
// more than half of the forks, and two at least, are stolen. True where a fork's flag changed.
bool mark_disturbed_rounds(std::span<CellReport* const> group);
// The same for every group of a report.
void mark_disturbed_rounds(std::vector<CellReport>& cells);

// Whether the fork's times count: ok, and not in a disturbed round.
bool counts(const Fork& fork);
// The rounds, from 0, in which a fork of these cells is ok and does not count.
std::set<int> uncounted_rounds(std::span<const CellReport* const> cells);

// The quality flags of a cell, from its forks: `disturbed` where no round was undisturbed, and each other flag that
// more than half of the forks that count have; `stolen` is of forks alone, for how much a hypervisor takes depends on
// how often a program waits.
std::vector<std::string> quality_flags(const std::vector<Fork>& forks);

// The forks behind the times of a cell: those that count, or all that are ok where none counts.
std::vector<const Fork*> counted_forks(const CellReport& cell);
// The forks behind what a disturbed machine does not change (accuracy, memory): all that are ok.
std::vector<const Fork*> ok_forks(const CellReport& cell);

// What the processor and the GPU did over the time of one fork, thin enough to be drawn.

// Blocks of one kind without another between them. Seconds since the fork's first event.
struct Phase {
  std::string kind;  // "warm up", "timed", "epoch 3"
  double begin = 0, end = 0;
};

// Of neighboring samples that share a point the highest counts.
struct Timeline {
  std::vector<Phase> phases;
  std::vector<double> times;  // seconds since the fork's first event
  std::vector<double> cpu;    // cores
  std::vector<double> gpu;    // 0..1; empty where no GPU was sampled
};

// At most 500 points and phases. Nothing where fewer than two samples were taken.
std::optional<Timeline> timeline(const Fork& fork);

}  // namespace assay
