#include "harness/conductor/fork/quality.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "harness/core/statistics.hpp"
#include "harness/core/text.hpp"
#include "harness/report/foreign_load.hpp"
#include "harness/report/fork_time.hpp"
#include "harness/report/gpu_metrics.hpp"

namespace assay {
namespace {

constexpr double min_frequency = 0.9;
constexpr double max_drift = 0.1;
constexpr double max_gpu_clock_change = 0.02;

bool others_disturbed(const std::optional<Disturbance>& disturbance) {
  return disturbance && disturbance->others_share() > max_taken;
}

// In which the hypervisor, a CPU quota or a standstill kept the worker from its processors, the sum over them.
double stopped_seconds(const RunWindow& window) {
  double seconds = 1e-9 * static_cast<double>(window.quota_stopped_ns.value_or(0));
  if (window.disturbance) seconds += 1e-9 * static_cast<double>(window.disturbance->steal_ns);
  for (const Standstill& still : window.standstills) seconds += still.seconds;
  return seconds;
}

constexpr std::array hard_throttles{"hw_slowdown", "sw_thermal_slowdown", "hw_thermal_slowdown",
                                    "hw_power_brake_slowdown"};

// The number of samples in which the GPU reported one of the reasons.
template <typename Reasons>
int throttles(const std::vector<const MachineSample*>& samples, const Reasons& reasons) {
  return static_cast<int>(std::count_if(samples.begin(), samples.end(), [&](const MachineSample* sample) {
    if (!sample->gpu->throttle) return false;
    return std::any_of(sample->gpu->throttle->begin(), sample->gpu->throttle->end(),
                       [&](const auto& seen) { return contains(reasons, seen); });
  }));
}

void warn_of_foreign_processes(Fork& fork) {
  for (const ForeignProcess& process : fork.gpu->foreign) {
    const std::string name = process.name.empty() ? "name unknown" : process.name;
    const std::string held =
        process.memory ? fmt::format("held {:.0f} MiB of", static_cast<double>(*process.memory) * 0x1p-20)
                       : "used";
    fork.warnings.push_back(fmt::format(
        "process {} ({}) {} the GPU while steps ran: stop it, or exclude other processes with nvidia-smi -c "
        "EXCLUSIVE_PROCESS",
        process.pid, name, held));
  }
}

void warn_of_clocks(Fork& fork, const std::vector<const MachineSample*>& samples) {
  double low = INFINITY, high = 0;
  for (const MachineSample* sample : samples) {
    if (!sample->gpu->sm_clock_hz) continue;
    low = std::min(low, *sample->gpu->sm_clock_hz);
    high = std::max(high, *sample->gpu->sm_clock_hz);
  }
  if (high <= 0 || high - low <= max_gpu_clock_change * high) return;
  fork.warnings.push_back(fmt::format(
      "the GPU's SM clock was {:.0f} to {:.0f} MHz in the timed blocks, so its clocks are not locked: lock them with "
      "nvidia-smi --lock-gpu-clocks={:.0f}",
      1e-6 * low, 1e-6 * high, 1e-6 * low));
}

// The median step time in the first and in the second half of the blocks; nothing for too few blocks.
std::optional<std::pair<double, double>> step_time_of_halves(const std::vector<const Block*>& blocks) {
  if (blocks.size() < 4) return std::nullopt;
  std::vector<double> halves[2];
  for (std::size_t i = 0; i < blocks.size(); ++i)
    halves[i < blocks.size() / 2 ? 0 : 1].push_back(block_seconds(*blocks[i]) /
                                                    static_cast<double>(blocks[i]->steps));
  return std::pair(median(halves[0]), median(halves[1]));
}

void warn_of_drift(Fork& fork) {
  if (fork.steady == false)
    fork.warnings.emplace_back(
        "the step time was not steady when timing began: try a longer warm-up (--warm-up-seconds)");
  const auto halves = step_time_of_halves(steady_blocks(fork));
  if (!halves) return;
  const auto [first, second] = *halves;
  if (std::max(first, second) > (1 + max_drift) * std::min(first, second))
    fork.warnings.push_back(fmt::format(
        "the step time changed from {} in the first half of the timed blocks to {} in the second: try more blocks, a "
        "longer warm-up, or a machine with a steadier clock",
        duration_text(first), duration_text(second)));
}

void warn_of_frequency(Fork& fork) {
  const std::vector<const Block*> timed = timed_blocks(fork);
  if (timed.empty()) return;
  double low = INFINITY, high = 0;
  for (const MachineSample& sample : fork.samples) {
    if (sample.frequency_hz <= 0 || sample.time_ns < timed.front()->begin_ns ||
        sample.time_ns > timed.back()->end_ns)
      continue;
    low = std::min(low, sample.frequency_hz);
    high = std::max(high, sample.frequency_hz);
  }
  if (high <= 0 || low >= min_frequency * high) return;
  fork.warnings.push_back(fmt::format(
      "the processor's clock was {:.0f} to {:.0f} MHz in the timed blocks: set a fixed frequency (cpupower "
      "frequency-set) to make runs comparable",
      1e-6 * low, 1e-6 * high));
}

void warn_of_stolen_time(Fork& fork) {
  if (contains(fork.flags, quality_flag::stolen))
    fork.warnings.emplace_back(
        "the hypervisor used over 3 % of the processors while the fork was timed: a program whose threads often sleep "
        "and wake loses more to it than one whose threads spin");
}

}  // namespace

void add_quality_flags(Fork& fork, const Cell& cell) {
  const auto add = [&](bool holds, const char* flag) {
    if (holds && !contains(fork.flags, flag)) fork.flags.emplace_back(flag);
  };
  add(others_disturbed(fork.disturbance), quality_flag::disturbed);
  if (fork.disturbance) add(fork.disturbance->steal_share() > max_taken, quality_flag::stolen);
  add(throttles(timed_gpu_samples(fork), hard_throttles) > 0, quality_flag::throttled);
  add(cell.profile, quality_flag::profiled);
}

void add_warnings(Fork& fork) {
  warn_of_stolen_time(fork);
  warn_of_drift(fork);
  warn_of_frequency(fork);
  if (!fork.gpu) return;
  const auto samples = timed_gpu_samples(fork);
  warn_of_foreign_processes(fork);
  warn_of_clocks(fork, samples);
  if (const int capped = throttles(samples, std::array{"sw_power_cap"}); capped > 0)
    fork.warnings.push_back(fmt::format(
        "the GPU lowered its clocks to stay within its power limit in {} of {} samples of the timed blocks: lock the "
        "clocks lower, or compare ratios",
        capped, samples.size()));
}

void warn_of_compile_time(Fork& fork, double worker_seconds, double conductor_seconds) {
  constexpr double min_share = 0.5, slack = 1;
  if (worker_seconds >= min_share * conductor_seconds || conductor_seconds - worker_seconds <= slack) return;
  fork.warnings.push_back(fmt::format(
      "the worker reports a compile time of {}, but it answered after {}: compare start-up by `spent.compile`",
      duration_text(worker_seconds), duration_text(conductor_seconds)));
}

namespace {

// The worker's clock and the conductor's are one; this is for the order in which they are read.
constexpr std::int64_t slack_ns = 1'000'000;

std::string outside_of_window(const Fork& fork, const RunWindow& window) {
  std::int64_t last = window.begin_ns - slack_ns;
  for (std::size_t i = 0; i < fork.blocks.size(); ++i) {
    const Block& block = fork.blocks[i];
    if (block.begin_ns < last || block.end_ns < block.begin_ns)
      return fmt::format("block {} in clock.json {}", i + 1,
                         block.end_ns < block.begin_ns ? "ends before it begins"
                         : i == 0                      ? "begins before the conductor sent the command `run`"
                                                       : "begins before the previous block ends");
    last = block.end_ns;
  }
  if (last > window.end_ns + slack_ns)
    return "the last block in clock.json ends after the worker reported the end of its steps";
  for (std::size_t i = 0; i < fork.blocks.size(); ++i)
    if (const Block& block = fork.blocks[i]; block.steps > block.end_ns - block.begin_ns)
      return fmt::format("block {} in clock.json has {} in {} ns", i + 1, plural(block.steps, "step"),
                         block.end_ns - block.begin_ns);
  return {};
}

struct Evaluated {
  double seconds = 0;
  int count = 0;
};
// By epoch.
std::map<int, Evaluated> evaluated_after(const Fork& fork) {
  std::map<int, Evaluated> found;
  for (const Evaluation& evaluation : fork.evaluations) {
    Evaluated& epoch = found[evaluation.epoch];
    epoch.seconds += evaluation.seconds;
    ++epoch.count;
  }
  return found;
}

// Between two blocks a worker reads the loss and counters, sizes the next block and sends its progress: 0.1 to 2 ms.
// Its process may also stand still once, for a period of a container's quota (100 ms).
constexpr double min_coverage = 0.8, seconds_per_gap = 3e-3, seconds_once = 0.1;

// Calls visit(block, next, seconds): the seconds from a block to the next one; without a next one, to the end of the
// run.
template <typename Visit>
void for_each_gap(const Fork& fork, const RunWindow& window, const Visit& visit) {
  for (std::size_t i = 0; i < fork.blocks.size(); ++i) {
    const Block* next = i + 1 < fork.blocks.size() ? &fork.blocks[i + 1] : nullptr;
    const std::int64_t end_ns = next ? next->begin_ns : window.end_ns + slack_ns;
    visit(fork.blocks[i], next, 1e-9 * static_cast<double>(end_ns - fork.blocks[i].end_ns));
  }
}

std::string evaluations_that_do_not_fit(const Fork& fork, const RunWindow& window) {
  std::map<int, Evaluated> evaluated = evaluated_after(fork);
  std::string found;
  for_each_gap(fork, window, [&](const Block& block, const Block* next, double gap) {
    const double after = evaluated[block.epoch].seconds;
    if (!found.empty() || after <= gap + 1e-9 * slack_ns) return;
    found =
        fmt::format("the evaluations after epoch {} in clock.json took {}, but {} was {} later", block.epoch,
                    duration_text(after), next ? "the next block" : "the end of the run", duration_text(gap));
  });
  return found;
}

// Seconds from the end of the warm-up to the end of the last block, and those of the blocks and evaluations in it.
struct Coverage {
  double covered = 0, span = 0;
  double excused = seconds_once;
  bool is_enough() const { return covered >= min_coverage * span - excused; }
};
Coverage coverage_of(const Fork& fork, const RunWindow& window) {
  std::map<int, Evaluated> evaluated = evaluated_after(fork);
  Coverage all;
  all.excused += stopped_seconds(window);
  for_each_gap(fork, window, [&](const Block& block, const Block* next, double gap) {
    if (block.kind == BlockKind::timed) {
      all.covered += block_seconds(block);
      all.span += block_seconds(block);
    }
    if (!next || next->kind != BlockKind::timed) return;
    const Evaluated after = evaluated[block.epoch];
    all.covered += after.seconds;
    all.span += gap;
    all.excused += seconds_per_gap * (1 + after.count);
  });
  return all;
}

// Work may be hidden between two blocks, for example the steps themselves.
std::string uncovered_time(const Fork& fork, const RunWindow& window) {
  const Coverage all = coverage_of(fork, window);
  if (all.is_enough() || others_disturbed(window.disturbance)) return {};
  return fmt::format(
      "the timed blocks in clock.json cover {} of the {} in which they ran: the worker may have worked between them",
      duration_text(all.covered), duration_text(all.span));
}

// Reading a result again only copies it. Some frameworks keep what the first reading made, which takes some
// microseconds.
constexpr double late_share = 0.25, late_seconds_once = 30e-6;

// How much longer the first reading took, where that is more than a copy; else 0.
double late_by(const ResultReading& reading) {
  const double more = 1e-9 * static_cast<double>(reading.first_ns - reading.again_ns);
  const double allowed = late_share * 1e-9 * static_cast<double>(reading.interval_ns) + late_seconds_once;
  return more > allowed ? more : 0;
}

// The blocks and evaluations next to the conductor's own clock.
constexpr double outside_share = 0.1, outside_seconds = 0.2;
constexpr double handling_seconds = 1, handled_bytes_per_second = 20e6;  // outside of the steps

std::string unstamped_time(const Fork& fork, const RunWindow& window) {
  if (others_disturbed(window.disturbance)) return {};
  double covered = 0;
  for (const Block& block : fork.blocks) covered += block_seconds(block);
  for (const Evaluation& evaluation : fork.evaluations) covered += evaluation.seconds;
  for (const ResultReading& reading : fork.readings)
    covered += 1e-9 * static_cast<double>(reading.first_ns + reading.again_ns) - late_by(reading);
  const double gaps = seconds_per_gap * static_cast<double>(fork.blocks.size() + fork.evaluations.size()) +
                      stopped_seconds(window);
  const double allowed = covered + std::max(outside_seconds, outside_share * covered) + gaps;
  if (const auto& stepped = window.stepped_ns) {
    const double span = 1e-9 * static_cast<double>(stepped->second - stepped->first);
    if (span > allowed)
      return fmt::format(
          "the steps took {} by the conductor's clock, but the blocks and evaluations in clock.json take {}: the "
          "worker's clock is slow, or it worked outside of its blocks",
          duration_text(span), duration_text(covered));
  }
  if (!window.handled_bytes) return {};
  const double run = 1e-9 * static_cast<double>(window.end_ns - window.begin_ns);
  const double handling =
      handling_seconds + static_cast<double>(*window.handled_bytes) / handled_bytes_per_second;
  if (run <= allowed + handling + window.idle_seconds) return {};
  return fmt::format(
      "the run took {} by the conductor's clock, but the blocks and evaluations in clock.json take {}, and staging batches "
      "and reading the state may take {}: the worker's clock is slow, or it worked outside of its blocks",
      duration_text(run), duration_text(covered), duration_text(handling));
}

// The kernel counts a process's time in ticks of up to 10 ms, and a block's counters are read just outside of it.
constexpr double cpu_share = 0.05, cpu_seconds_once = 0.05;

std::string contradiction_in_processor_time(const Fork& fork, const RunWindow& window) {
  if (window.processors == 0) return {};
  const double processors = window.processors;
  const std::string allowed = plural(window.processors, "processor");
  double inside = 0, used = 0;
  for (const Block& block : fork.blocks) {
    inside += block_seconds(block);
    used += 1e-9 * static_cast<double>(block.cpu_ns);
  }
  const double gaps = seconds_per_gap * static_cast<double>(fork.blocks.size());
  if (used > (1 + cpu_share) * processors * (inside + gaps) + cpu_seconds_once)
    return fmt::format("the blocks in clock.json took {} and used {} of processor time, on {}",
                       duration_text(inside), duration_text(used), allowed);
  if (!window.cpu_ns) return {};
  const double all = 1e-9 * static_cast<double>(*window.cpu_ns);
  const double outside = 1e-9 * static_cast<double>(window.end_ns - window.begin_ns) - inside;
  if (used >= (1 - cpu_share) * all - processors * std::max(0.0, outside) - cpu_seconds_once) return {};
  return fmt::format(
      "the blocks in clock.json used {} of processor time, but the worker's process used {} in the run: it cannot have "
      "used the rest in the {} outside of the blocks, on {}",
      duration_text(used), duration_text(all), duration_text(std::max(0.0, outside)), allowed);
}

}  // namespace

namespace {

constexpr std::size_t min_readings = 3;
// Three quarters of the readings: single ones may be slow for other reasons.
bool is_usual(std::size_t found, const Fork& fork) {
  return fork.readings.size() >= min_readings && 4 * found >= 3 * fork.readings.size();
}

constexpr double late_share_of_run = 0.1, late_seconds_of_run = 0.02;

// A worker that computes in both readings has no difference between them. Frameworks need 1 to 6 us to hand over a
// small result on a CPU.
constexpr double copy_seconds_once = 100e-6, copied_bytes_per_second = 2e8;

bool is_recomputed(const ResultReading& reading, std::int64_t result_bytes) {
  const double may_copy = static_cast<double>(result_bytes) / copied_bytes_per_second + copy_seconds_once;
  return 1e-9 * static_cast<double>(reading.again_ns) >
         late_share * 1e-9 * static_cast<double>(reading.interval_ns) + may_copy;
}

std::string recomputed_results(const Fork& fork, const RunWindow& window) {
  std::vector<double> again, intervals;
  for (const ResultReading& reading : fork.readings) {
    if (!is_recomputed(reading, window.result_bytes)) continue;
    again.push_back(1e-9 * static_cast<double>(reading.again_ns));
    intervals.push_back(1e-9 * static_cast<double>(reading.interval_ns));
  }
  if (!is_usual(again.size(), fork)) return {};
  return fmt::format(
      "results are computed when they are read: reading one again took {}, next to {} of the step or block; the worker "
      "leaves work to the reading",
      duration_text(median(again)), duration_text(median(intervals)));
}

std::string late_results(const Fork& fork, const RunWindow& window) {
  std::vector<double> late, intervals;
  double sum = 0, blocks = 0;
  for (const ResultReading& reading : fork.readings) {
    const double seconds = late_by(reading);
    if (seconds == 0) continue;
    sum += seconds;
    late.push_back(seconds);
    intervals.push_back(1e-9 * static_cast<double>(reading.interval_ns));
  }
  for (const Block* block : timed_blocks(fork)) blocks += block_seconds(*block);
  double excused = late_seconds_of_run + stopped_seconds(window);
  if (window.disturbance) excused += 1e-9 * static_cast<double>(window.disturbance->max_others_ns());
  const bool much = sum > late_share_of_run * blocks + excused && !others_disturbed(window.disturbance);
  if (!is_usual(late.size(), fork) && !much) return {};
  return fmt::format(
      "results were not there when the clock stopped: the first reading took {} longer than the second, next to {} of "
      "the step or block; the worker does not wait for its steps, or leaves work to the reading",
      duration_text(median(late)), duration_text(median(intervals)));
}

}  // namespace

std::string contradiction_in_clock(const Fork& fork, const RunWindow& window) {
  std::string found = outside_of_window(fork, window);
  if (found.empty()) found = late_results(fork, window);
  if (found.empty()) found = recomputed_results(fork, window);
  if (found.empty()) found = evaluations_that_do_not_fit(fork, window);
  if (found.empty()) found = uncovered_time(fork, window);
  if (found.empty()) found = unstamped_time(fork, window);
  if (found.empty()) found = contradiction_in_processor_time(fork, window);
  return found;
}

bool stopped_by_quota(const RunWindow& window) {
  constexpr double max_stopped = 0.01;
  const auto length = static_cast<double>(window.end_ns - window.begin_ns);
  return window.quota_stopped_ns && static_cast<double>(*window.quota_stopped_ns) > max_stopped * length;
}

void warn_of_own_threads(Fork& fork, const RunWindow& window, const Cell& cell) {
  constexpr double min_waited = 0.75;  // MXNet, whose engine has threads of its own, waits for 0.4
  if (!window.waited_ns || !window.disturbance || others_disturbed(window.disturbance) ||
      window.disturbance->steal_share() > max_taken || stopped_by_quota(window) ||
      cell.axes.all_threads() > window.processors)
    return;
  const double seconds = 1e-9 * static_cast<double>(window.end_ns - window.begin_ns);
  const double waited = 1e-9 * static_cast<double>(*window.waited_ns);
  if (waited < min_waited * seconds) return;
  fork.warnings.push_back(fmt::format(
      "the worker's threads waited {} for a processor in a run of {}, and no other process used its {}: more threads "
      "compute than --threads allows, which a library or a variable of --environment may set",
      duration_text(waited), duration_text(seconds), window.processors));
}

bool waited_for_others(const Fork& fork, const RunWindow& window) {
  return !coverage_of(fork, window).is_enough() && others_disturbed(window.disturbance);
}

void note_standstills(Fork& fork, const RunWindow& window) {
  const std::vector<const Block*> timed = timed_blocks(fork);
  if (timed.empty()) return;
  double seconds = 0;
  for (const Standstill& still : window.standstills)
    if (still.begin_ns < timed.back()->end_ns && still.end_ns > timed.front()->begin_ns)
      seconds += still.seconds;
  if (seconds == 0) return;
  fork.flags.emplace_back(quality_flag::frozen);
  fork.warnings.push_back(fmt::format(
      "it stood still for {} while blocks were timed: stopped by a signal, in a paused container, or on a "
      "suspended machine; leave it alone while it measures",
      duration_text(seconds)));
}

}  // namespace assay
