// Whether the numbers of a fork can be trusted: detects disturbances while it was timed.
// docs/explanation/clock.md explains the limits.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/conductor/config/cell.hpp"
#include "harness/conductor/process/standstill.hpp"
#include "harness/report/report.hpp"

namespace assay {

// Adds to fork.flags, each flag at most once (quality_flag of report/fork_time.hpp):
//
//   disturbed   other processes used more than 3 % of the worker's processors, see Disturbance; mark_disturbances()
//               takes off what is usual for the program
//   stolen      the hypervisor took more than 3 % of them; also a warning
//   throttled   in a sample of the timed blocks the GPU reported sw_thermal_slowdown, hw_thermal_slowdown,
//               hw_slowdown or hw_power_brake_slowdown as the reason for its clocks
//   profiled    operators were timed, which slows the steps
void add_quality_flags(Fork& fork, const Cell& cell);

// The conductor's measurements of the command `run`, from sending it to its answer.
struct RunWindow {
  std::int64_t begin_ns = 0, end_ns = 0;  // CLOCK_MONOTONIC, as in a block
  std::optional<std::int64_t>
      cpu_ns{};        // processor time of the process that timed the blocks, if it is known
  int processors = 0;  // on which it may run; 0: unknown
  // From the first to the last progress that the worker sent: it sends one right before its first block and one right after
  // its last. Absent: it sent none.
  std::optional<std::pair<std::int64_t, std::int64_t>> stepped_ns{};
  // What was taken from them; absent if it cannot be measured. Of several ranks: of the one that others disturbed most,
  // because ranks wait for each other.
  std::optional<Disturbance> disturbance{};
  std::optional<std::int64_t> waited_ns{};         // of the threads of the worker, for a processor
  std::optional<std::int64_t> quota_stopped_ns{};  // by the CPU quota of its control group
  std::vector<Standstill> standstills{};
  // In which no process of the worker used a processor; 0 on a GPU, which may compute then.
  double idle_seconds = 0;
  // Of the batches that it stages before its first block, and of the state that it reads after the last. Absent: the time
  // for that is not limited.
  std::optional<std::int64_t> handled_bytes{};
  std::int64_t result_bytes = 0;  // of what a step computes, without training
};
// Adds the flag `frozen` and a warning if it stood still between the begin of the first timed block and the end of the last.
void note_standstills(Fork& fork, const RunWindow& window);

// Describes the first contradiction between the worker's measurements and the conductor's; empty if there is none. A
// worker measures its own steps, but:
//
//   - its blocks must lie within the time in which it ran, one after the other, with at most one step per nanosecond;
//   - results must be there when a step has ended, so that reading them takes no longer than reading them again, and only
//     copies them;
//   - the evaluations after an epoch must fit between its block and the next one;
//   - the timed blocks, with the evaluations between them, must cover 80 % of the time from the end of the warm-up to
//     the end of the last block; 3 ms for each block and each evaluation, 100 ms once, and the time in which a CPU quota,
//     the hypervisor or a standstill stopped it may be missing on top, see waited_for_others();
//   - all blocks and evaluations must cover the time from the worker's first progress to its last, but for a tenth of
//     theirs, at least 0.2 s, and 3 ms for each: the conductor stamps both, so a worker's clock cannot run slowly;
//   - so must they cover the whole run, but for a second, the time for `handled_bytes` at 20 MB/s and the idle time on
//     top: a worker decides when it sends its progress;
//   - the processor time must not exceed the time of the blocks on all processors, or fall short of that of the run by
//     more than the processors can have done outside of the blocks.
//
// docs/explanation/clock.md explains the limits. Needs a fork that validate_fork() accepts.
std::string contradiction_in_clock(const Fork& fork, const RunWindow& window);

// Whether the blocks cover too little, and are excused: other processes used more than 3 % of the worker's processors in
// the window, so it also waited for a processor between two blocks. Such a fork must have the flag uncovered: it does not
// count. What the worker itself reports of others excuses nothing, and without the conductor's measurement nothing is
// excused.
bool waited_for_others(const Fork& fork, const RunWindow& window);

// Adds a warning if the worker's threads waited for a processor for three quarters of the window or more, summed over threads, and
// nothing else used its processors: then more of them compute than the cell has threads.
void warn_of_own_threads(Fork& fork, const RunWindow& window, const Cell& cell);

// Whether a CPU quota stopped the worker for more than 1 % of the window.
bool stopped_by_quota(const RunWindow& window);

// Adds other possible disturbances to fork.warnings, each as "observation: remedy"; they do not affect the
// rank. The step time had not become steady, or differs by more than 10 % between the halves of the steady
// blocks. The clock of the first core fell below 0.9 of its maximum in the timed blocks. For a GPU: other
// processes on it, clocks that are not locked (the SM clock changed by more than 2 % in the timed blocks), a
// power cap.
void add_warnings(Fork& fork);

// Adds a warning if the worker reports less than half of the time in which it answered the command `compile`, and the
// difference is more than a second: reading the parameters is not part of the compile time.
void warn_of_compile_time(Fork& fork, double worker_seconds, double conductor_seconds);

}  // namespace assay
