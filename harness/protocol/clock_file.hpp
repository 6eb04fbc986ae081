// results/clock.json: what a fork measured. The batch library writes it, the conductor reads it, and the report keeps
// its records as they are. A loss that is not finite is null.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/core/clock.hpp"
#include "harness/core/json/fields.hpp"
#include "harness/core/words.hpp"
#include "harness/protocol/request.hpp"

namespace assay {

enum class BlockKind { warm_up, timed };
template <>
inline constexpr auto words<BlockKind> =
    std::array{Word{BlockKind::warm_up, "warm_up"}, Word{BlockKind::timed, "timed"}};

enum class DataSplit { train, validation, test };
template <>
inline constexpr auto words<DataSplit> =
    std::array{Word{DataSplit::train, "train"}, Word{DataSplit::validation, "validation"},
               Word{DataSplit::test, "test"}};

struct Block {
  BlockKind kind = BlockKind::timed;
  int epoch = 0;
  std::int64_t steps = 0;
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
  std::int64_t wait_ns = 0;
  std::int64_t cpu_ns = 0;
  std::int64_t involuntary_switches = 0;
  std::int64_t major_faults = 0;
  std::int64_t steal_ns = 0;
  std::optional<double> loss{};
};
constexpr auto describe(Of<Block>) {
  return fields("block", "A stretch of steps between two drains of the device.",
                field("kind", &Block::kind, "`warm_up` blocks come first and count in no metric."),
                field("epoch", &Block::epoch, "From 1; 0 where the fork counts steps.")
                    .at_least(0)
                    .left_out_of_columns(),
                field("steps", &Block::steps, "Steps in the block.").at_least(1),
                field("begin_ns", &Block::begin_ns, "CLOCK_MONOTONIC, in nanoseconds."),
                field("end_ns", &Block::end_ns, "CLOCK_MONOTONIC, in nanoseconds."),
                field("wait_ns", &Block::wait_ns, "Waiting for the loader, within the block.")
                    .at_least(0)
                    .left_out_of_columns(),
                field("cpu_ns", &Block::cpu_ns, "CPU time of the worker's process.").at_least(0),
                field("involuntary_switches", &Block::involuntary_switches,
                      "Times the worker's threads were preempted.")
                    .at_least(0)
                    .left_out_of_columns(),
                field("major_faults", &Block::major_faults, "Page faults that read from disk.")
                    .at_least(0)
                    .left_out_of_columns(),
                field("steal_ns", &Block::steal_ns,
                      "Time the hypervisor took from the processors that the worker may run on.")
                    .at_least(0)
                    .left_out_of_columns(),
                field("loss", &Block::loss, "Mean loss of the last step; null where there is none."));
}

// What others took of the worker's processors, from the begin of the first timed block to the end of the last.
struct Disturbance {
  int processors = 0;          // that the worker may run on
  std::int64_t window_ns = 0;  // of wall time
  std::int64_t own_ns = 0;     // CPU time of the worker and its child processes
  std::int64_t others_ns = 0;  // CPU time of everybody else on those processors
  std::int64_t steal_ns = 0;   // taken from them by the hypervisor
  bool operator==(const Disturbance&) const = default;

  // The shares of the processors' time in the window that others and the hypervisor took, less the resolution of the
  // kernel's counters (10 ms a processor); at least 0.
  double others_share() const { return share(others_ns); }
  double steal_share() const { return share(steal_ns); }

 private:
  double share(std::int64_t taken) const {
    constexpr double resolution_ns = 1e7;
    const double all = static_cast<double>(processors) * static_cast<double>(window_ns);
    const double sure = static_cast<double>(taken) - resolution_ns * processors;
    return all > 0 && sure > 0 ? sure / all : 0;
  }
};
constexpr auto describe(Of<Disturbance>) {
  return fields(
      "disturbance",
      "What others took of the worker's processors, from the begin of the first timed block to the end of the last.",
      field("processors", &Disturbance::processors, "How many the worker may run on.").at_least(1),
      field("window_ns", &Disturbance::window_ns, "Wall time between the two readings.").at_least(0),
      field("own_ns", &Disturbance::own_ns, "CPU time of the worker and its child processes.").at_least(0),
      field("others_ns", &Disturbance::others_ns,
            "CPU time of everybody else on these processors: neither idle, nor stolen, nor the worker's. The "
            "kernel counts idle time in ticks of 10 ms, so a small negative number is possible."),
      field("steal_ns", &Disturbance::steal_ns, "Time that the hypervisor took from these processors."));
}

struct Evaluation {
  int epoch = 0;
  DataSplit split = DataSplit::test;
  std::int64_t samples = 0;
  double loss = 0;
  double accuracy = 0;
  double seconds = 0;
};
constexpr auto describe(Of<Evaluation>) {
  return fields(
      "evaluation", "One pass over a split, outside the timed blocks.",
      field("epoch", &Evaluation::epoch, "After which epoch; 0 where the fork counts steps.").at_least(0),
      field("split", &Evaluation::split, "Which part of the data set."),
      field("samples", &Evaluation::samples, "True samples evaluated, padding left out.").at_least(1),
      field("loss", &Evaluation::loss, "Mean cross-entropy.").null_is_nan(),
      field("accuracy", &Evaluation::accuracy, "Share of samples whose largest logit is the label's.")
          .between(0, 1),
      field("seconds", &Evaluation::seconds, "How long it took.").at_least(0));
}

constexpr auto describe(Of<ClockQuality>) {
  return fields(
      "clock_quality", "The clock that blocks are timed with.",
      field("name", &ClockQuality::name, "`CLOCK_MONOTONIC`."),
      field("resolution_ns", &ClockQuality::resolution_ns, "Smallest difference seen between two readings."),
      field("cost_ns", &ClockQuality::cost_ns, "Of one reading, median."));
}

// The loader as it was, not as it was asked for.
struct LoaderRecord {
  LoaderKind kind = LoaderKind::resident;
  int workers = 0;
  int prefetch = 0;
  std::int64_t resident_batches = 0;
  std::int64_t batches = 0;  // that were read
  std::int64_t wait_ns = 0;
};
constexpr auto describe(Of<LoaderRecord>) {
  return fields("loader", "The loader as it was.",
                field("kind", &LoaderRecord::kind, "`resident`, `harness`, `native`."),
                field("workers", &LoaderRecord::workers, "Its threads."),
                field("prefetch", &LoaderRecord::prefetch, "Batches that it reads ahead."),
                field("resident_batches", &LoaderRecord::resident_batches, "Batches kept in memory."),
                field("batches", &LoaderRecord::batches, "Batches that were read."),
                field("wait_ns", &LoaderRecord::wait_ns, "Waiting for them."));
}

struct WarmUp {
  std::int64_t steps = 0;
  double seconds = 0;
  std::optional<bool> steady{};
};
constexpr auto describe(Of<WarmUp>) {
  return fields(
      "warm_up", "What was run before the first timed block.",
      field("steps", &WarmUp::steps, "How many steps."), field("seconds", &WarmUp::seconds, "How long."),
      field("steady", &WarmUp::steady, "Whether the time of a step had settled; null: too few steps to tell.")
          .optional());
}

struct ClockFile {
  std::string schema = "assay-clock/1";
  bool complete = false;
  ClockQuality clock{};
  LoaderRecord loader{};
  WarmUp warm_up{};
  std::vector<Block> blocks{};
  std::optional<Disturbance> disturbance{};
  std::vector<Evaluation> evaluations{};
  std::vector<std::int64_t> latencies_ns{};
  std::int64_t latencies_seen = 0;
};
constexpr auto describe(Of<ClockFile>) {
  return fields(
      "clock_file", "What a fork measured.",
      field("schema", &ClockFile::schema, "`assay-clock/1`.").optional(),
      field("complete", &ClockFile::complete, "The last block asked for has ended.").optional(),
      field("clock", &ClockFile::clock, "How fine the clock is.").optional(),
      field("loader", &ClockFile::loader, "The loader as it was.").optional(),
      field("warm_up", &ClockFile::warm_up, "What was run before the first timed block."),
      field("blocks", &ClockFile::blocks, "In the order of time."),
      field("disturbance", &ClockFile::disturbance,
            "What others took of the worker's processors; absent where the system does not show it.")
          .left_out_by_default(),
      field("evaluations", &ClockFile::evaluations, "In the order of time."),
      field("latencies_ns", &ClockFile::latencies_ns, "Task `infer`: a uniform sample of the timed steps."),
      field("latencies_seen", &ClockFile::latencies_seen, "Steps that `latencies_ns` is a sample of.")
          .optional());
}

// Atomic. Throws IoError.
void write_clock_file(const std::filesystem::path& path, const ClockFile& file);
// Throws JsonError naming the file and the field, also where it is no regular file or larger than 32 MiB: a worker writes
// it. One that did not close its session leaves none.
ClockFile read_clock_file(const std::filesystem::path& path);

}  // namespace assay
