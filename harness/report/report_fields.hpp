// The JSON form of each struct of the report: used to write and read it, and to make its schema and
// docs/reference/report.md. Block and Evaluation are described in protocol/clock_file.hpp.
#pragma once

#include "harness/protocol/message.hpp"
#include "harness/report/axes_json.hpp"
#include "harness/report/hosts.hpp"
#include "harness/report/report.hpp"

namespace assay {

inline Description describe(Of<Metric>) {
  return fields(
      "metric", "One estimate over the forks of a cell, with its interval.",
      field("value", &Metric::value,
            "Median over the forks that count (for times those without a flag that drops them, for accuracy "
            "and memory all ok forks); null with a reason."),
      field("unit", &Metric::unit, "`s`, `1/s`, `FLOP/s`, `B/s`, `B`, `1`, `W`, `J`."),
      field(
          "lower", &Metric::lower,
          "Lower bound of the median of forks within this run, free of a distribution; absent below six forks.")
          .left_out_by_default(),
      field("upper", &Metric::upper, "Upper bound of the median; absent below six forks.")
          .left_out_by_default(),
      field("confidence", &Metric::confidence,
            "Confidence of the bounds, such as 0.96875; absent without bounds.")
          .between(0, 1)
          .left_out_by_default(),
      field("n", &Metric::n, "Number of forks of the value.").at_least(0),
      field("hint", &Metric::hint, "The best way to show the value."),
      field("reason", &Metric::reason, "Why the value is null; absent if there is a value.")
          .not_empty()
          .left_out_by_default());
}

inline Description describe(Of<MachineSample>) {
  return fields(
      "sample", "The machine and the worker at one moment, seen by the conductor.",
      field("time_ns", &MachineSample::time_ns, "CLOCK_MONOTONIC, in nanoseconds."),
      field("worker_cpu", &MachineSample::worker_cpu,
            "Busy cores of the worker and the processes below it since the previous sample, including the "
            "time of children that have ended."),
      field("worker_rss", &MachineSample::worker_rss,
            "Resident bytes of the worker and the processes below it, summed: shared pages count in each.")
          .at_least(0),
      field("processes", &MachineSample::processes, "Number of these processes (default: 1).")
          .at_least(1)
          .left_out_by_default(),
      field(
          "frequency_hz", &MachineSample::frequency_hz,
          "Mean clock of the worker's processors, of the first eight if there are more; 0 if the machine does not report it."),
      field("gpu_utilisation", &MachineSample::gpu, &GpuReading::utilisation,
            "Share of NVML's last sample period (1/6 s to 1 s, by the GPU) in which a kernel ran. It and "
            "the fields below are only for cells on `cuda`; null for the reason in `missing` of the fork's "
            "`gpu`.")
          .between(0, 1)
          .left_out_by_default(),
      field("gpu_worker_memory", &MachineSample::gpu, &GpuReading::worker_memory,
            "Bytes of the worker and the processes below it on the GPU; null until NVML names one of them "
            "there.")
          .at_least(0)
          .left_out_by_default(),
      field("gpu_device_memory", &MachineSample::gpu, &GpuReading::device_memory,
            "Bytes in use on the whole GPU, by any process.")
          .at_least(0)
          .left_out_by_default(),
      field("gpu_sm_clock_hz", &MachineSample::gpu, &GpuReading::sm_clock_hz, "Clock of its multiprocessors.")
          .at_least(0)
          .left_out_by_default(),
      field("gpu_memory_clock_hz", &MachineSample::gpu, &GpuReading::memory_clock_hz, "Clock of its memory.")
          .at_least(0)
          .left_out_by_default(),
      field("gpu_power_watts", &MachineSample::gpu, &GpuReading::power_watts,
            "Power of the whole board, as the driver averages it.")
          .at_least(0)
          .left_out_by_default(),
      field("gpu_energy_joules", &MachineSample::gpu, &GpuReading::energy_joules,
            "Energy of the whole board since the driver was loaded.")
          .at_least(0)
          .left_out_by_default(),
      field("gpu_temperature_celsius", &MachineSample::gpu, &GpuReading::temperature_celsius,
            "Temperature of its die.")
          .left_out_by_default(),
      field("gpu_throttle", &MachineSample::gpu, &GpuReading::throttle,
            "Why its clocks are below the maximum, by NVML's names: `sw_power_cap`, `hw_thermal_slowdown`. "
            "Empty: nothing limits them.")
          .left_out_by_default());
}

inline Description describe(Of<ForeignProcess>) {
  return fields(
      "foreign_process", "A process on the GPU that does not belong to the worker.",
      field("pid", &ForeignProcess::pid, "Its process id, from NVML."),
      field("name", &ForeignProcess::name,
            "Name of its program; empty if this system does not show the process."),
      field("memory", &ForeignProcess::memory, "Maximum of its bytes; null if NVML does not report it.")
          .at_least(0));
}

inline Description describe(Of<GpuUse>) {
  return fields(
      "gpu", "The GPU that a worker used, from NVML, over the worker's life.",
      field("model", &GpuUse::model, "Its name; empty if NVML does not report it."),
      field("uuid", &GpuUse::uuid, "Id of the GPU, or of an instance of one."),
      field("reason", &GpuUse::reason, "Why nothing was sampled; empty if it was."),
      field("missing", &GpuUse::missing,
            "Why samples lack a field, by its name, with the number of samples if not all lack it."),
      field("worker_peak", &GpuUse::worker_peak,
            "Maximum of bytes of the worker and the processes below it, up to the end of their "
            "steps.")
          .at_least(0),
      field("device_peak", &GpuUse::device_peak,
            "Maximum of bytes in use on the whole GPU, up to the end of the steps.")
          .at_least(0),
      field("foreign", &GpuUse::foreign,
            "Other processes on it while steps ran: neither the worker nor below it."));
}

inline Description describe(Of<TimeSpent>) {
  return fields(
      "time_spent", "Wall time, in seconds, of the conductor's work for one worker.",
      field("folder", &TimeSpent::folder, "Writing the cell folder.").at_least(0),
      field("start", &TimeSpent::start, "Starting the process, up to its hello; 0 if it was already running.")
          .at_least(0),
      field("compile", &TimeSpent::compile, "The answer to `compile`, or to `restart`.").at_least(0),
      field("run", &TimeSpent::run, "The answer to `run`: staging, warm-up, timed blocks, evaluations.")
          .at_least(0)
          .left_out_by_default(),
      field("check", &TimeSpent::check, "The answer to `check` or `verify`.")
          .at_least(0)
          .left_out_by_default(),
      field("exchange", &TimeSpent::exchange, "The answer to `exchange`.").at_least(0).left_out_by_default(),
      field("device", &TimeSpent::device, "The answer to `time_device`.").at_least(0).left_out_by_default(),
      field("judge", &TimeSpent::judge, "The oracle's answers, and comparing with them.")
          .at_least(0)
          .left_out_by_default(),
      field("quit", &TimeSpent::quit, "Ending the process; 0 if it stays.").at_least(0));
}

inline Description describe(Of<CoreReading>) {
  return fields(
      "core_reading", "Where the host had the worker's processors.",
      field(
          "slowdown", &CoreReading::slowdown,
          "How many times as long a loop takes on the slowest processor while all of them run it as while only "
          "that one runs it: about 2 if two are on one physical core.")
          .at_least(0),
      field(
          "hop_ns", &CoreReading::hop_ns,
          "Time from a processor's write to the next one's read of it: about 20 within a core, 50 within a shared "
          "cache, 250 without.")
          .at_least(0));
}

inline Description describe(Of<CorePlacement>) {
  return fields("core_placement",
                "Where the host had the worker's processors before and after the timed run.",
                field("before", &CorePlacement::before, "Before the command `run`."),
                field("after", &CorePlacement::after, "After the answer to it."));
}

inline Description describe(Of<RankRecord>) {
  return fields(
      "rank", "What one of several ranks measured.",
      field("rank", &RankRecord::rank, "Its number, from 0.").at_least(0),
      field("cores", &RankRecord::cores, "Its processors; `inherited` if it is not pinned."),
      field("blocks", &RankRecord::blocks, "Its own blocks, in the order of time.").in_columns(),
      field(
          "disturbance", &RankRecord::disturbance,
          "Time taken from its processors; absent if unknown. Another rank on one of them is another process.")
          .left_out_by_default(),
      field("compile_seconds", &RankRecord::compile_seconds,
            "Time from the program to an executable that has run.")
          .at_least(0),
      field("host_peak_rss", &RankRecord::host_peak_rss, "As that of the fork.").at_least(0),
      field("host_start_rss", &RankRecord::host_start_rss, "As that of the fork.")
          .at_least(0)
          .left_out_by_default(),
      field("parameters_digest", &RankRecord::parameters_digest,
            "SHA-256 of its final state; absent if none was computed.")
          .left_out_by_default(),
      field("exchange", &RankRecord::exchange,
            "What its exchange of gradients costs; absent if its backend does not measure that, or with "
            "`--quick`.")
          .left_out_by_default(),
      field("host", &RankRecord::host,
            "The name of its machine, one of the report's `hosts`; absent if all ranks were on one.")
          .left_out_by_default(),
      field(
          "placement", &RankRecord::placement,
          "With several machines, of the first rank of each: where its host had the processors of its ranks.")
          .left_out_by_default(),
      field("samples", &RankRecord::samples,
            "With several machines: as the fork's, of this rank, on the clock of its machine.")
          .in_columns()
          .left_out_by_default());
}

inline Description describe(Of<Fork>) {
  return fields(
      "fork", "One execution of the cell: the unit of replication.",
      field("round", &Fork::round, "Forks of one round ran adjacent in time and share a seed.").at_least(0),
      field("seed", &Fork::seed, "Seed of parameters and epoch plans."),
      field("start", &Fork::start, "Start time of its worker: ISO 8601, UTC.").left_out_by_default(),
      field("order", &Fork::order, "Its index among all forks of the run in the order of time, from 0.")
          .at_least(0)
          .left_out_by_default(),
      field("session", &Fork::session, "Index of its session in the run, from 0.")
          .at_least(0)
          .left_out_by_default(),
      field("status", &Fork::status, "Its result."),
      field("reason", &Fork::reason, "Why the status is not `ok`.").left_out_by_default(),
      field("reason_code", &Fork::reason_code, "The reason as a stable code: see reason codes.")
          .left_out_by_default(),
      field("log_tail", &Fork::log_tail,
            "The end of the worker's stdout and stderr, if the status is not `ok`.")
          .left_out_by_default(),
      field(
          "flags", &Fork::flags,
          "Reasons to doubt its numbers. With one of these it does not count, nor does its round for a pair with its cell: "
          "`disturbed` (other processes used over 3 % of the worker's processors), `uncovered` (its blocks do not cover its "
          "run, because other processes used its processors), `frozen` (it stood still for half a second or more in its "
          "timed blocks), `placement` (before the run, the host had some of the processors on one physical core, or much "
          "further apart than at other times), `cpu_quota` (the CPU quota of the control group stopped it for over 1 % of "
          "the run), `fewer_threads` (the machine was busy, and it had fewer threads than its cell). These drop no fork: "
          "`stolen` (the hypervisor took over 3 % of the processors), `throttled` (the GPU), `profiled`.")
          .unique(),
      field("warnings", &Fork::warnings,
            "Other reasons to doubt its numbers, which do not affect its rank: foreign processes on the "
            "GPU, its clocks not locked, its power capped; each with a remedy.")
          .left_out_by_default(),
      field("compile_seconds", &Fork::compile_seconds, "Time from the program to an executable that has run.")
          .at_least(0),
      field("resident", &Fork::resident,
            "It ran in the process of an earlier fork of its cell (`--fork-style resident`): "
            "`compile_seconds` is that fork's.")
          .left_out_by_default(),
      field("examined", &Fork::examined,
            "An exam followed its timed steps: of each fresh fork, and of the first and a third of the later "
            "forks of a resident process. Cells that count epochs are examined before they are timed.")
          .left_out_by_default(),
      field("spent", &Fork::spent, "How its time was spent.").left_out_by_default(),
      field("steady", &Fork::steady,
            "Whether the time of a step was steady when timing began; absent: too few steps to tell.")
          .left_out_by_default(),
      field(
          "blocks", &Fork::blocks,
          "In the order of time. Of several ranks: each block is that of the slowest rank, with the mean of their "
          "losses, and the sums of their CPU times, switches, faults and stolen times.")
          .in_columns(),
      field("ranks", &Fork::ranks,
            "What each of several ranks measured, in their order; absent for one rank.")
          .left_out_by_default(),
      field(
          "loopback_bytes", &Fork::loopback_bytes,
          "Of several ranks: bytes that the loopback interface sent from the command `run` to the last answer to it, "
          "by any process; absent if the system does not count them.")
          .at_least(0)
          .left_out_by_default(),
      field(
          "disturbance", &Fork::disturbance,
          "Time taken from the worker's processors; absent if unknown. Of the whole run, as the conductor measured it, if "
          "only this excuses that the timed blocks cover too little.")
          .left_out_by_default(),
      field("placement", &Fork::placement,
            "Where the host had the worker's processors; absent for a single one.")
          .left_out_by_default(),
      field(
          "quota_stopped_ns", &Fork::quota_stopped_ns,
          "How long the CPU quota of the control group stopped its processes during the whole run, summed over "
          "processors; absent if no group counts it.")
          .at_least(0)
          .left_out_by_default(),
      field("evaluations", &Fork::evaluations, "In the order of time.").in_columns().left_out_by_default(),
      field(
          "latencies_ns", &Fork::latencies_ns,
          "Task `infer`: latencies of timed steps; task `decode`: of timed tokens. A uniform sample if there "
          "are many.")
          .left_out_by_default(),
      field("latencies_seen", &Fork::latencies_seen,
            "Number of steps or tokens from which `latencies_ns` is sampled.")
          .at_least(0)
          .left_out_by_default(),
      field("prefills_ns", &Fork::prefills_ns,
            "Task `decode`: times of timed prompts; a uniform sample if there are many.")
          .left_out_by_default(),
      field("readings", &Fork::readings,
            "Without training: how long it took to read the results of some steps, drawn at random, twice.")
          .in_columns()
          .left_out_by_default(),
      field("samples", &Fork::samples, "In the order of time.").in_columns().left_out_by_default(),
      field("gpu", &Fork::gpu, "The GPU that the worker used.").left_out_by_default(),
      field(
          "host_peak_rss", &Fork::host_peak_rss,
          "Maximum resident size, in bytes, that the kernel reports for the worker until the end of its run, "
          "before its exam (of a later fork of a resident worker: since its restart); with children, the "
          "maximum sum over all of them in a sample, if that is more. Of several ranks: the sum. 0 if it is "
          "unknown.")
          .at_least(0),
      field(
          "host_start_rss", &Fork::host_start_rss,
          "Resident size, in bytes, of the worker when it said hello: an interpreter with its framework. 0 if "
          "it is unknown. Of several ranks: the sum, as of `memory`.")
          .at_least(0)
          .left_out_by_default(),
      field(
          "memory", &Fork::memory,
          "Bytes by the worker's names: `planned_arena`, `persistent`, `framework_peak` (the maximum that the "
          "framework's allocator held), `installed_size` (of the files that the backend needs).")
          .left_out_by_default(),
      field("settings", &Fork::settings,
            "Settings observed in the worker: threads, math mode, instruction set.")
          .left_out_by_default(),
      field(
          "variables", &Fork::variables,
          "Environment variables of the worker that affect speed, if they differ from those of the session: "
          "the harness sets some of them.")
          .left_out_by_default(),
      field("libraries", &Fork::libraries,
            "Libraries that the worker had loaded, if they differ from those of the cell.")
          .left_out_by_default(),
      field(
          "adapter_digest", &Fork::adapter_digest,
          "SHA-256 over the scripts that the worker executed: the adapter in the backend's folder, and the harness's "
          "Python files. Equal in all forks of a cell that are ok.")
          .left_out_by_default(),
      field(
          "program_digest", &Fork::program_digest,
          "SHA-256 over backend.json, the worker's program or interpreter, and the batch library. Equal in all forks "
          "of a cell that are ok; another machine has another one.")
          .left_out_by_default(),
      field("data_digest", &Fork::data_digest,
            "The `checksum` of the data set that it read. Equal in all forks of a cell that are ok.")
          .left_out_by_default(),
      field("parameters_digest", &Fork::parameters_digest,
            "SHA-256 of the final state; equal digests mean equal bits. Absent if none was computed.")
          .left_out_by_default(),
      field("operators", &Fork::operators, "The per-op profile of `--profile`.").left_out_by_default(),
      field(
          "device_timed", &Fork::device_timed,
          "Of a single op on a GPU: its steps on the device alone, after the timed ones; absent if its backend does not "
          "measure that, or with `--quick` or `--profile`.")
          .left_out_by_default());
}

inline Description describe(Of<TensorVerdict>) {
  return fields(
      "tensor", "One tensor compared with the oracle's.",
      field("name", &TensorVerdict::name,
            "`first/moment/conv1.weight.m`, `last/loss`: the run of the exam and the tensor."),
      field("max_error", &TensorVerdict::max_error, "Maximum absolute error."),
      field("max_bound", &TensorVerdict::max_bound, "Its limit."),
      field("l2_error", &TensorVerdict::l2_error, "Relative L2 error."),
      field("l2_bound", &TensorVerdict::l2_bound, "Its limit."),
      field("ratio", &TensorVerdict::ratio, "The larger ratio of an error to its bound; above 1 is wrong."));
}

inline Description describe(Of<Ties>) {
  return fields(
      "ties", "The distance of the check to the kinks of an op.",
      field("op", &Ties::op, "`relu` or `max_pool`."),
      field("tipped", &Ties::tipped,
            "Number of elements of ReLUs, or windows of max-pools, that fell on another side of the kink in "
            "at least one of the oracle's perturbed runs.")
          .at_least(0),
      field("elements", &Ties::elements, "Number of all elements.").at_least(0));
}

inline Description describe(Of<CheckSettings>) {
  return fields(
      "check_settings", "The settings of the check.",
      field("seed", &CheckSettings::seed, "Seed of its parameters and inputs."),
      field("distinct", &CheckSettings::distinct, "Distinct samples in its batch.").at_least(1),
      field("perturbations", &CheckSettings::perturbations, "Perturbed runs of the oracle.").at_least(0),
      field("version", &CheckSettings::version, "Version of the check's rules.").at_least(0),
      field("oracle_cached", &CheckSettings::oracle_cached,
            "The oracle's answers are from the cache, made in an earlier run."),
      field(
          "loosest", &CheckSettings::loosest,
          "The widest bound of a gradient in the exam's first step, as relative L2: a smaller error there may "
          "pass.")
          .left_out_by_default(),
      field("loosest_gradient", &CheckSettings::loosest_gradient, "The parameter of that gradient.")
          .left_out_by_default(),
      field(
          "timed_program_verified", &CheckSettings::timed_program_verified,
          "False: the network has dropout, the backend gives the exam's masks to a second program of it, and "
          "the timed program cannot draw the same masks again. Of that program only the shares of kept "
          "elements were judged (default: true).")
          .left_out_by_default(),
      field("shared", &CheckSettings::shared,
            "The cell of this run whose check before timing is used, because it has the same program and "
            "settings.")
          .left_out_by_default());
}

inline Description describe(Of<Equivalence>) {
  return fields(
      "equivalence", "Whether the cell computes the same as the oracle.",
      field("checked", &Equivalence::checked, "False: `reason` says why the verdict is missing."),
      field("passed", &Equivalence::passed, "Every tensor is within its bound."),
      field("worst", &Equivalence::worst, "The largest ratio of error to bound."),
      field("reason", &Equivalence::reason, "Why it was not checked, or which tensor failed.")
          .left_out_by_default(),
      field("tensors", &Equivalence::tensors, "Each tensor compared.").in_columns().left_out_by_default(),
      field("ties", &Equivalence::ties, "One for each op with a kink; none without training.")
          .left_out_by_default(),
      field("unjudged", &Equivalence::unjudged,
            "Tensors after the last steps that may be off by their own size, and are not among `tensors`.")
          .left_out_by_default(),
      field("settings", &Equivalence::settings, "The settings of the check.").left_out_by_default());
}

inline Description describe(Of<Published>) {
  return fields("published",
                "A published result about this cell: a value, a ratio to another cell, or a statement.",
                field("metric", &Published::metric, "The metric of this cell that it is about."),
                field("value", &Published::value, "The published number; null if there is only a statement."),
                field("unit", &Published::unit, "Its unit; `1` for a ratio."),
                field("to", &Published::to, "If the value is a ratio: the id of the other cell."),
                field("source", &Published::source, "Citation."),
                field("statement", &Published::statement, "The words, if the claim has no number."));
}

inline Description describe(Of<Work>) {
  return fields(
      "work", "The minimum work of one step, by its graph, and the maximum speed of the machine in this run.",
      field("flops", &Work::flops,
            "Floating-point operations of the step's graph; a multiply-add counts as two.")
          .at_least(0),
      field("bytes", &Work::bytes,
            "For a single op: each operand read once and each result written once. 0: not counted.")
          .at_least(0),
      field("peak_flops", &Work::peak_flops,
            "The maximum rate of a large matrix product in this run, with the cell's device, precision "
            "and threads. 0: not measured.")
          .at_least(0),
      field("copy_bandwidth", &Work::copy_bandwidth,
            "Bytes read and written per second by a copy that exceeds the caches, in this run. 0: not "
            "measured.")
          .at_least(0));
}

inline Description describe(Of<BetterSetting>) {
  return fields(
      "better_setting", "A faster setting that an earlier trial on this machine found.",
      field("mode", &BetterSetting::mode, "Mode of the backend."),
      field("layout", &BetterSetting::layout, "Layout of its activations."),
      field("ratio", &BetterSetting::ratio, "Its step time over that of the cell's mode and layout.")
          .at_least(0),
      field("lower", &BetterSetting::lower, "Lower bound of the ratio.").at_least(0).left_out_by_default(),
      field("upper", &BetterSetting::upper, "Upper bound, below 1.").at_least(0).left_out_by_default(),
      field("date", &BetterSetting::date, "Date of the trial: ISO 8601, UTC."));
}

inline Description describe(Of<CellReport>) {
  return fields(
      "cell", "One point of the matrix.",
      field("id", &CellReport::id, "Made of the axes; unique in the report.").not_empty(),
      field("axes", &CellReport::axes, "The values of the id.").inline_before(),
      field("work", &CellReport::work, "The work of a step, and the speed of the machine.")
          .left_out_by_default(),
      field(
          "kind", &CellReport::kind,
          "The kind of the backend in this mode: a `framework`; a `runtime`, which only infers; `bare`, only a "
          "vendor's library, with which both are compared for their tax; an `engine`, such a library with the backend's "
          "own kernels around it (`bare` in reports before there were engines); or the `oracle`."),
      field("status", &CellReport::status, "Its result."),
      field("reason", &CellReport::reason, "Why the status is not `ok`."),
      field("reason_code", &CellReport::reason_code, "The reason as a stable code: see reason codes.")
          .left_out_by_default(),
      field(
          "flags", &CellReport::flags,
          "Quality: empty if at least half of its forks are clean, and only such rows are ranked; else every "
          "flag of its forks.")
          .unique(),
      field("reproduce", &CellReport::reproduce, "A command line that repeats the cell."),
      field("hyper_parameters", &CellReport::hyper_parameters,
            "Hyper-parameters of the training: base `learning_rate`, `schedule` (as `--schedule` names it), "
            "`augmentation` and the `optimizer`'s constants; absent for task `infer`.")
          .object()
          .left_out_by_default(),
      field("settings", &CellReport::settings,
            "All settings, given or by default: how steps were timed, loaded, checked and limited.")
          .object()
          .left_out_by_default(),
      field("backend_version", &CellReport::backend_version,
            "As the worker reported it; empty if none started."),
      field("libraries", &CellReport::libraries,
            "Libraries that its last worker had loaded; a fork lists its own if they differ."),
      field("equivalence", &CellReport::equivalence, "Whether it computes the same as the oracle."),
      field("check_spent", &CellReport::check_spent, "How the time of the check before timing was spent.")
          .left_out_by_default(),
      field(
          "better", &CellReport::better,
          "A faster mode and layout of the same backend for the same work, if `--mode best` found one here.")
          .left_out_by_default(),
      field("environment", &CellReport::environment,
            "For a merged report: index of the cell's machine in the report's `environments`, from 0; absent "
            "if it has not run.")
          .at_least(0)
          .left_out_by_default(),
      field("published", &CellReport::published, "Published results.").left_out_by_default(),
      field("metrics", &CellReport::metrics, "By name."),
      field("forks", &CellReport::forks, "Raw data, in the order of the rounds."));
}

inline Description describe(Of<Report>) {
  return fields(
      "report", "The measurements of one run of Assay.",
      field("schema", &Report::schema,
            "The version of this format. Readers ignore fields that they do not know."),
      field("schema_minor", &Report::schema_minor,
            "Rises when fields are added that older readers can ignore.")
          .at_least(0)
          .optional(),
      field("rules", &Report::rules,
            "The number of the rules that derived flags and metrics from the forks. A reader with newer "
            "rules derives them again.")
          .at_least(0)
          .optional(),
      field("run", &Report::run, "How the report came to be."),
      field("environment", &Report::environment,
            "The machine and its clocks, as `assay env --json` prints them."),
      field("environments", &Report::environments,
            "For a merged report: the machine of each shard, then that of each `--resume`, all as "
            "`environment` describes it, which is the first of them. Cells of unlike entries did not run in "
            "the same rounds and are never paired.")
          .left_out_by_default(),
      field("hosts", &Report::hosts, "The machines of the cells whose ranks were on several, by name.")
          .left_out_by_default(),
      field("cells", &Report::cells, "In the order of the plan."));
}

}  // namespace assay
