// results/clock.json: the measurements of a fork. The batch library writes it, the conductor reads it, and
// the report keeps its records unchanged. A loss that is not finite is null.
#pragma once

#include <algorithm>
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
  std::int64_t enqueue_ns = 0;
  std::optional<std::int64_t> minor_faults{};  // unknown in reports of earlier releases
  std::optional<double> accuracy{};            // of the samples of its steps, if the loop counted it
};
inline Description describe(Of<Block>) {
  return fields(
      "block", "A stretch of steps between two drains of the device.",
      field("kind", &Block::kind, "`warm_up` blocks come first; metrics ignore them."),
      field("epoch", &Block::epoch, "From 1; 0 if the fork counts steps.").at_least(0).left_out_of_columns(),
      field("steps", &Block::steps, "Steps in the block.").at_least(1),
      field("begin_ns", &Block::begin_ns, "CLOCK_MONOTONIC, in nanoseconds."),
      field("end_ns", &Block::end_ns, "CLOCK_MONOTONIC, in nanoseconds."),
      field("wait_ns", &Block::wait_ns, "Time spent waiting for the loader, within the block.")
          .at_least(0)
          .left_out_of_columns(),
      field("cpu_ns", &Block::cpu_ns, "CPU time of the worker's process.").at_least(0),
      field("involuntary_switches", &Block::involuntary_switches,
            "Number of times that the worker's threads were preempted.")
          .at_least(0)
          .left_out_of_columns(),
      field("major_faults", &Block::major_faults, "Page faults that read from disk.")
          .at_least(0)
          .left_out_of_columns(),
      field("steal_ns", &Block::steal_ns,
            "Time that the hypervisor took from the processors that the worker may run on.")
          .at_least(0)
          .left_out_of_columns(),
      field(
          "loss", &Block::loss,
          "Mean loss of the last step; of Keras's `fit` with its own data, of the epoch; null if the step has no loss."),
      field(
          "enqueue_ns", &Block::enqueue_ns,
          "Time until every step of the block was handed over, before the device is drained; 0 if the worker "
          "does not report it.")
          .at_least(0)
          .left_out_of_columns(),
      field("minor_faults", &Block::minor_faults,
            "Page faults that no disk served: memory that the worker had to ask the system for. Null if they "
            "were not counted.")
          .at_least(0)
          .left_out_by_default(),
      field(
          "accuracy", &Block::accuracy,
          "Running accuracy: the share of the samples of its steps whose largest logit was the label's, each before "
          "its step changed the parameters. Only with `--running-accuracy`.")
          .between(0, 1)
          .left_out_by_default());
}

// Time that other processes and the hypervisor took from the worker's processors, from the begin of the first
// timed block to the end of the last.
struct Disturbance {
  int processors = 0;          // number that the worker may run on
  std::int64_t window_ns = 0;  // wall time
  std::int64_t own_ns = 0;     // CPU time of the worker and its child processes
  std::int64_t others_ns = 0;  // CPU time of all other processes on those processors
  std::int64_t steal_ns = 0;   // time that the hypervisor took from them
  // How long the worker's threads were ready to run and had no processor, summed over threads; absent if unknown.
  std::optional<std::int64_t> waited_ns{};
  // CPU time of all processes that are not of the worker, on any processor, from the command `run` to its answer; absent if
  // unknown. The conductor measures it.
  std::optional<std::int64_t> seen_ns{};
  bool operator==(const Disturbance&) const = default;

  // The shares of the processors' time in the window that other processes and the hypervisor took, less the
  // resolution of the kernel's counters (10 ms for each processor); at least 0. `others_ns` also has what the worker costs
  // the kernel and the hypervisor, and `seen_ns` what ran elsewhere or earlier, so others took at most the lesser of both.
  std::int64_t max_others_ns() const {
    return std::max<std::int64_t>(0, seen_ns ? std::min(others_ns, *seen_ns) : others_ns);
  }
  double others_share() const { return share(max_others_ns()); }
  double steal_share() const { return share(steal_ns); }

 private:
  double share(std::int64_t taken) const {
    constexpr double resolution_ns = 1e7;
    const double all = static_cast<double>(processors) * static_cast<double>(window_ns);
    const double sure = static_cast<double>(taken) - resolution_ns * processors;
    return all > 0 && sure > 0 ? sure / all : 0;
  }
};
inline Description describe(Of<Disturbance>) {
  return fields(
      "disturbance",
      "Time taken from the worker's processors, from the begin of the first timed block to the end of the last.",
      field("processors", &Disturbance::processors, "Number of processors that the worker may run on.")
          .at_least(1),
      field("window_ns", &Disturbance::window_ns, "Wall time between the two readings.").at_least(0),
      field("own_ns", &Disturbance::own_ns, "CPU time of the worker and its child processes.").at_least(0),
      field(
          "others_ns", &Disturbance::others_ns,
          "CPU time of all other processes on these processors: neither idle, nor stolen, nor the worker's. The "
          "kernel counts idle time in ticks of 10 ms, so a small negative number is possible."),
      field("steal_ns", &Disturbance::steal_ns, "Time that the hypervisor took from these processors."),
      field(
          "waited_ns", &Disturbance::waited_ns,
          "Time in which threads of the worker were ready to run and had no processor, the sum over its threads; absent "
          "if the kernel does not count it.")
          .at_least(0)
          .left_out_by_default(),
      field(
          "seen_ns", &Disturbance::seen_ns,
          "CPU time of all processes of the machine that are not of the worker, on any processor, from the command `run` to "
          "its answer, as the conductor measured it. Others took at most the lesser of this and `others_ns`. Absent in a "
          "container that hides other processes, and with several ranks.")
          .at_least(0)
          .left_out_by_default());
}

struct Evaluation {
  int epoch = 0;
  DataSplit split = DataSplit::test;
  std::int64_t samples = 0;
  double loss = 0;
  double accuracy = 0;
  double seconds = 0;
};
inline Description describe(Of<Evaluation>) {
  return fields(
      "evaluation", "One pass over a split, outside the timed blocks.",
      field("epoch", &Evaluation::epoch, "The epoch after which it ran; 0 if the fork counts steps.")
          .at_least(0),
      field("split", &Evaluation::split, "The part of the data set."),
      field("samples", &Evaluation::samples, "Samples evaluated, without padding.").at_least(1),
      field("loss", &Evaluation::loss, "Mean cross-entropy.").null_is_nan(),
      field("accuracy", &Evaluation::accuracy, "Share of samples whose largest logit is the label's.")
          .between(0, 1),
      field("seconds", &Evaluation::seconds, "Duration.").at_least(0));
}

inline Description describe(Of<ClockQuality>) {
  return fields(
      "clock_quality", "The clock that blocks are timed with.",
      field("name", &ClockQuality::name, "`CLOCK_MONOTONIC`."),
      field("resolution_ns", &ClockQuality::resolution_ns, "Smallest difference seen between two readings."),
      field("cost_ns", &ClockQuality::cost_ns, "Median cost of one reading."));
}

// The loader as it really ran, which may differ from the request.
struct LoaderRecord {
  LoaderKind kind = LoaderKind::resident;
  int workers = 0;
  int prefetch = 0;
  std::int64_t resident_batches = 0;
  std::int64_t batches = 0;  // batches that were read
  std::int64_t wait_ns = 0;
};
inline Description describe(Of<LoaderRecord>) {
  return fields(
      "loader", "The loader as it really ran.",
      field("kind", &LoaderRecord::kind, "`resident`, `harness`, `native`."),
      field("workers", &LoaderRecord::workers, "Number of its threads."),
      field("prefetch", &LoaderRecord::prefetch, "Number of batches that it reads ahead."),
      field("resident_batches", &LoaderRecord::resident_batches, "Number of batches kept in memory."),
      field("batches", &LoaderRecord::batches, "Number of batches that were read."),
      field("wait_ns", &LoaderRecord::wait_ns, "Time spent waiting for them."));
}

struct WarmUp {
  std::int64_t steps = 0;
  double seconds = 0;
  std::optional<bool> steady{};
};
inline Description describe(Of<WarmUp>) {
  return fields("warm_up", "The steps before the first timed block.",
                field("steps", &WarmUp::steps, "Number of steps."),
                field("seconds", &WarmUp::seconds, "Duration."),
                field("steady", &WarmUp::steady,
                      "Whether the time of a step had become steady; null: too few steps to tell.")
                    .optional());
}

// Two readings of the results of one step, after its lap or block had ended.
struct ResultReading {
  std::int64_t interval_ns = 0;  // of the lap, or of the block of a single op
  std::int64_t first_ns = 0;
  std::int64_t again_ns = 0;
  std::int64_t step = 0;   // of the run, from 0
  std::int64_t token = 0;  // of task decode, after the prompt, from 1
};
inline Description describe(Of<ResultReading>) {
  return fields("result_reading",
                "Two readings of the results of one step, after its lap or block had ended.",
                field("interval_ns", &ResultReading::interval_ns,
                      "Duration of the lap, or of the block of a single op.")
                    .at_least(0),
                field("first_ns", &ResultReading::first_ns,
                      "Duration of the first reading: what was not complete, and the copy.")
                    .at_least(0),
                field("again_ns", &ResultReading::again_ns, "Duration of the second reading: only the copy.")
                    .at_least(0),
                field("step", &ResultReading::step, "The step whose results were read, from 0.").at_least(0),
                field("token", &ResultReading::token,
                      "Task `decode`: the token after the prompt whose results were read, from 1.")
                    .at_least(0)
                    .left_out_by_default());
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
  std::vector<std::int64_t> prefills_ns{};
  std::vector<ResultReading> readings{};
};
inline Description describe(Of<ClockFile>) {
  return fields(
      "clock_file", "The measurements of a fork.",
      field("schema", &ClockFile::schema, "`assay-clock/1`.").optional(),
      field("complete", &ClockFile::complete, "The last requested block has ended.").optional(),
      field("clock", &ClockFile::clock, "Quality of the clock.").optional(),
      field("loader", &ClockFile::loader, "The loader as it really ran.").optional(),
      field("warm_up", &ClockFile::warm_up, "The steps before the first timed block."),
      field("blocks", &ClockFile::blocks, "In the order of time."),
      field("disturbance", &ClockFile::disturbance,
            "Time taken from the worker's processors; absent if the system does not show it.")
          .left_out_by_default(),
      field("evaluations", &ClockFile::evaluations, "In the order of time."),
      field("latencies_ns", &ClockFile::latencies_ns,
            "Task `infer`: a uniform sample of the timed steps; task `decode`: of the timed tokens."),
      field("latencies_seen", &ClockFile::latencies_seen,
            "Number of steps or tokens from which `latencies_ns` is sampled.")
          .optional(),
      field("prefills_ns", &ClockFile::prefills_ns, "Task `decode`: a uniform sample of the timed prompts.")
          .left_out_by_default(),
      field("readings", &ClockFile::readings, "Without training: of some steps, drawn at random.")
          .left_out_by_default());
}

// Atomic. Throws IoError.
void write_clock_file(const std::filesystem::path& path, const ClockFile& file);
// Throws JsonError naming the file and the field, also if it is not a regular file or is larger than 32 MiB:
// a worker wrote it. A worker that did not close its supply leaves no file.
ClockFile read_clock_file(const std::filesystem::path& path);

}  // namespace assay
