// What each struct of the report is in JSON: from these it is written and read, and its schema and docs/reference/report.md
// are made. Block and Evaluation are described in protocol/clock_file.hpp.
#pragma once

#include "harness/protocol/message.hpp"
#include "harness/report/axes_json.hpp"
#include "harness/report/report.hpp"
#include "harness/report/run_record.hpp"

namespace assay {

constexpr auto describe(Of<Metric>) {
  return fields(
      "metric", "One estimate over the forks of a cell, with the interval that they allow.",
      field(
          "value", &Metric::value,
          "Median over the forks that count (of times those outside disturbed rounds, of accuracy and memory "
          "all that are ok); null with a reason."),
      field("unit", &Metric::unit, "`s`, `1/s`, `FLOP/s`, `B/s`, `B`, `1`, `W`, `J`."),
      field("lower", &Metric::lower,
            "Lower bound of the median: exact and distribution-free; absent below six forks.")
          .left_out_by_default(),
      field("upper", &Metric::upper, "Upper bound of the median; absent below six forks.")
          .left_out_by_default(),
      field("confidence", &Metric::confidence,
            "What the bounds attain, such as 0.96875; absent without bounds.")
          .between(0, 1)
          .left_out_by_default(),
      field("n", &Metric::n, "Forks behind the value.").at_least(0),
      field("hint", &Metric::hint, "How the value is best shown."),
      field("reason", &Metric::reason, "Why the value is null; absent where there is a value.")
          .not_empty()
          .left_out_by_default());
}

constexpr auto describe(Of<MachineSample>) {
  return fields(
      "sample", "The machine and the worker at one moment, seen by the conductor.",
      field("time_ns", &MachineSample::time_ns, "CLOCK_MONOTONIC, in nanoseconds."),
      field("worker_cpu", &MachineSample::worker_cpu,
            "Cores busy in the worker and the processes below it since the sample before; with the time of "
            "children that were waited for."),
      field("worker_rss", &MachineSample::worker_rss,
            "Resident bytes of the worker and the processes below it, summed: shared pages count in each.")
          .at_least(0),
      field("processes", &MachineSample::processes, "How many processes those are; 1 where it is absent.")
          .at_least(1)
          .left_out_by_default(),
      field("frequency_hz", &MachineSample::frequency_hz,
            "Clock of the first core; 0 where the machine does not report it."),
      field(
          "gpu_utilisation", &MachineSample::gpu, &GpuReading::utilisation,
          "Share of NVML's last sample period (1/6 s to 1 s, by the GPU) in which a kernel ran. It and the fields "
          "below are of cells on `cuda`; null as `missing` of the fork's `gpu` says.")
          .between(0, 1)
          .left_out_by_default(),
      field(
          "gpu_worker_memory", &MachineSample::gpu, &GpuReading::worker_memory,
          "Bytes that the worker and the processes below it hold on the GPU; null until NVML names one of them "
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
            "A counter of the whole board: energy since the driver was loaded.")
          .at_least(0)
          .left_out_by_default(),
      field("gpu_temperature_celsius", &MachineSample::gpu, &GpuReading::temperature_celsius, "Of its die.")
          .left_out_by_default(),
      field("gpu_throttle", &MachineSample::gpu, &GpuReading::throttle,
            "Why its clocks are below the maximum, by NVML's names: `sw_power_cap`, `hw_thermal_slowdown`. "
            "Empty: nothing limits them.")
          .left_out_by_default());
}

constexpr auto describe(Of<ForeignProcess>) {
  return fields("foreign_process", "A process on the GPU that is not of the worker.",
                field("pid", &ForeignProcess::pid, "As NVML names it."),
                field("name", &ForeignProcess::name,
                      "Of its program; empty where this system does not show the process."),
                field("memory", &ForeignProcess::memory,
                      "The most bytes that it was seen to hold; null where NVML does not report it.")
                    .at_least(0));
}

constexpr auto describe(Of<GpuUse>) {
  return fields(
      "gpu", "The GPU that a worker used, by NVML, over the worker's life.",
      field("model", &GpuUse::model, "Its name; empty where NVML does not report it."),
      field("uuid", &GpuUse::uuid, "Of the GPU, or of the instance of one."),
      field("reason", &GpuUse::reason, "Why nothing was sampled; empty: it was."),
      field("missing", &GpuUse::missing,
            "Why samples lack a field, by its name, with the count of looks where it was not all of them."),
      field(
          "worker_peak", &GpuUse::worker_peak,
          "The most bytes that the worker and the processes below it were seen to hold, up to the end of their "
          "steps.")
          .at_least(0),
      field("device_peak", &GpuUse::device_peak,
            "The most bytes that were seen in use on the whole GPU, up to the end of the steps.")
          .at_least(0),
      field("foreign", &GpuUse::foreign,
            "Processes on it, while steps ran, that are neither the worker nor below it."));
}

constexpr auto describe(Of<TimeSpent>) {
  return fields(
      "time_spent", "Wall time, in seconds, of what the conductor did with one worker.",
      field("folder", &TimeSpent::folder, "Writing the cell folder.").at_least(0),
      field("start", &TimeSpent::start, "Starting the process, up to its hello; 0 where it was there.")
          .at_least(0),
      field("compile", &TimeSpent::compile, "The answer to `compile`, or to `restart`.").at_least(0),
      field("run", &TimeSpent::run, "The answer to `run`: staging, warm-up, timed blocks, evaluations.")
          .at_least(0)
          .left_out_by_default(),
      field("check", &TimeSpent::check, "The answer to `check` or `verify`.")
          .at_least(0)
          .left_out_by_default(),
      field("judge", &TimeSpent::judge, "The oracle's answers, and comparing with them.")
          .at_least(0)
          .left_out_by_default(),
      field("quit", &TimeSpent::quit, "Ending the process; 0 where it stays.").at_least(0));
}

constexpr auto describe(Of<Fork>) {
  return fields(
      "fork", "One execution of the cell: the unit of replication.",
      field("round", &Fork::round, "Forks of one round ran adjacent in time and share a seed.").at_least(0),
      field("seed", &Fork::seed, "Of parameters and epoch plans."),
      field("start", &Fork::start, "When its worker was started: ISO 8601, UTC.").left_out_by_default(),
      field("order", &Fork::order, "Its place among all forks of the run in the order of time, from 0.")
          .at_least(0)
          .left_out_by_default(),
      field("session", &Fork::session, "In which of the run's sessions it was measured, from 0.")
          .at_least(0)
          .left_out_by_default(),
      field("status", &Fork::status, "How it ended."),
      field("reason", &Fork::reason, "Why the status is not `ok`.").left_out_by_default(),
      field("reason_code", &Fork::reason_code, "The same as a code that keeps its meaning: see reason codes.")
          .left_out_by_default(),
      field("log_tail", &Fork::log_tail,
            "The end of the worker's stdout and stderr, where the status is not `ok`.")
          .left_out_by_default(),
      field(
          "flags", &Fork::flags,
          "What may have moved its numbers: `disturbed` (other processes used over 3 % of the worker's "
          "processors), `stolen` (the hypervisor took over 3 % of them), `disturbed_round` (any fork that it "
          "is compared with was disturbed in this round, or most were stolen: the round does not count), "
          "`throttled` (the GPU), `profiled`.")
          .unique(),
      field(
          "warnings", &Fork::warnings,
          "What else was seen that may have moved its numbers, and costs it no rank: foreign processes on the "
          "GPU, its clocks not locked, its power capped; each with what helps.")
          .left_out_by_default(),
      field("compile_seconds", &Fork::compile_seconds, "From the program to an executable that has run.")
          .at_least(0),
      field(
          "resident", &Fork::resident,
          "It ran in the process of an earlier fork of its cell (`--fork-style resident`): `compile_seconds` is that "
          "fork's.")
          .left_out_by_default(),
      field("spent", &Fork::spent, "Where its time went.").left_out_by_default(),
      field("steady", &Fork::steady,
            "Whether the time of a step had settled when timing began; absent: too few steps to tell.")
          .left_out_by_default(),
      field("blocks", &Fork::blocks, "In the order of time.").in_columns(),
      field("disturbance", &Fork::disturbance,
            "What others took of the worker's processors; absent where it is not known.")
          .left_out_by_default(),
      field("evaluations", &Fork::evaluations, "In the order of time.").in_columns().left_out_by_default(),
      field("latencies_ns", &Fork::latencies_ns,
            "Task `infer`: of timed steps, a uniform sample where there are many.")
          .left_out_by_default(),
      field("latencies_seen", &Fork::latencies_seen, "Steps that `latencies_ns` is a sample of.")
          .at_least(0)
          .left_out_by_default(),
      field("samples", &Fork::samples, "In the order of time.").in_columns().left_out_by_default(),
      field("gpu", &Fork::gpu, "The GPU that the worker used.").left_out_by_default(),
      field(
          "host_peak_rss", &Fork::host_peak_rss,
          "Largest resident size, in bytes, as the kernel saw it in the worker or in one child that it waited "
          "for; where the worker had children, the largest sum over them in a sample, if that is more. 0 where "
          "it was not seen.")
          .at_least(0),
      field(
          "memory", &Fork::memory,
          "Bytes as the worker names them: `planned_arena`, `persistent`, `framework_peak` (the most that the "
          "framework's allocator held).")
          .left_out_by_default(),
      field("settings", &Fork::settings,
            "What was observed in the worker: threads, math mode, instruction set.")
          .left_out_by_default(),
      field("variables", &Fork::variables,
            "Environment variables of the worker that affect speed, where they are not those of the session: "
            "the harness sets some of them.")
          .left_out_by_default(),
      field("libraries", &Fork::libraries, "What the worker had loaded, where it is not that of the cell.")
          .shaped_as<std::vector<protocol::Library>>()
          .left_out_by_default(),
      field("parameters_digest", &Fork::parameters_digest,
            "SHA-256 of the state at the end; equal digests are equal bits. Absent where none was taken.")
          .left_out_by_default(),
      field("operators", &Fork::operators, "The per-op profile of `--profile`.")
          .shaped_as<std::vector<protocol::OperatorTime>>()
          .left_out_by_default());
}

constexpr auto describe(Of<TensorVerdict>) {
  return fields(
      "tensor", "One tensor compared with the oracle's.",
      field("name", &TensorVerdict::name,
            "`first/moment/conv1.weight.m`, `last/loss`: the run of the exam and the tensor."),
      field("max_error", &TensorVerdict::max_error, "Largest absolute error."),
      field("max_bound", &TensorVerdict::max_bound, "Its limit."),
      field("l2_error", &TensorVerdict::l2_error, "Relative L2 error."),
      field("l2_bound", &TensorVerdict::l2_bound, "Its limit."),
      field("ratio", &TensorVerdict::ratio, "The worse of the two errors over its bound; above 1 is wrong."));
}

constexpr auto describe(Of<Ties>) {
  return fields(
      "ties", "How near the check came to the kinks of an op.",
      field("op", &Ties::op, "`relu` or `max_pool`."),
      field("tipped", &Ties::tipped,
            "Elements of ReLUs, windows of max-pools, that fell on another side of the kink in at least "
            "one of the oracle's perturbed runs.")
          .at_least(0),
      field("elements", &Ties::elements, "How many there are.").at_least(0));
}

constexpr auto describe(Of<CheckSettings>) {
  return fields(
      "check_settings", "How the check was done.",
      field("seed", &CheckSettings::seed, "Of its parameters and inputs."),
      field("distinct", &CheckSettings::distinct, "Distinct samples in its batch.").at_least(1),
      field("perturbations", &CheckSettings::perturbations, "Perturbed runs of the oracle.").at_least(0),
      field("version", &CheckSettings::version, "Of the check's rules.").at_least(0),
      field("oracle_cached", &CheckSettings::oracle_cached,
            "The oracle's answers were in the cache: they were made in an earlier run."),
      field(
          "loosest", &CheckSettings::loosest,
          "The largest bound of a gradient of the exam's first step, as relative L2: a mistake that is smaller "
          "there may pass.")
          .left_out_by_default(),
      field("loosest_gradient", &CheckSettings::loosest_gradient, "The parameter whose gradient that is.")
          .left_out_by_default(),
      field(
          "timed_program_verified", &CheckSettings::timed_program_verified,
          "False: the network has dropout, the backend feeds the exam's masks to a second program of it, and the "
          "program that was timed cannot draw the same masks again; of that only the shares of what it keeps were "
          "judged. True where it is absent.")
          .left_out_by_default(),
      field(
          "shared", &CheckSettings::shared,
          "The cell of this run whose check before timing it is, where that has the same program and settings.")
          .left_out_by_default());
}

constexpr auto describe(Of<Equivalence>) {
  return fields(
      "equivalence", "Whether the cell computes the same as the oracle.",
      field("checked", &Equivalence::checked, "False: `reason` says why there is no verdict."),
      field("passed", &Equivalence::passed, "Every tensor stays within its bound."),
      field("worst", &Equivalence::worst, "The largest ratio of error to bound."),
      field("reason", &Equivalence::reason, "Why it was not checked, or which tensor failed.")
          .left_out_by_default(),
      field("tensors", &Equivalence::tensors, "Each tensor compared.").in_columns().left_out_by_default(),
      field("ties", &Equivalence::ties, "For each op with a kink; none where nothing is trained.")
          .left_out_by_default(),
      field("settings", &Equivalence::settings, "How the check was done.").left_out_by_default());
}

constexpr auto describe(Of<Published>) {
  return fields(
      "published", "What others published about this cell: a value, a ratio to another cell, or a statement.",
      field("metric", &Published::metric, "The metric of this cell that it is about."),
      field("value", &Published::value, "The published number; null where there is only a statement."),
      field("unit", &Published::unit, "Its unit; `1` for a ratio."),
      field("to", &Published::to, "Where the value is a ratio: the id of the cell that it is relative to."),
      field("source", &Published::source, "Citation."),
      field("statement", &Published::statement, "The words, where there is no number."));
}

constexpr auto describe(Of<Work>) {
  return fields(
      "work",
      "The minimum that one step does, by its graph, and the maximum that the machine did in this run.",
      field("flops", &Work::flops,
            "Floating-point operations of the step's graph; a multiply-add counts two.")
          .at_least(0),
      field("bytes", &Work::bytes,
            "Of a single op: each operand read once and each result written once. 0: not counted.")
          .at_least(0),
      field("peak_flops", &Work::peak_flops,
            "The largest rate of a large matrix product in this run, with the cell's device, precision "
            "and threads. 0: not measured.")
          .at_least(0),
      field("copy_bandwidth", &Work::copy_bandwidth,
            "Bytes read and written a second by a copy that no cache holds, in this run. 0: not "
            "measured.")
          .at_least(0));
}

constexpr auto describe(Of<BetterSetting>) {
  return fields(
      "better_setting", "What an earlier trial on this machine found.",
      field("mode", &BetterSetting::mode, "Of the backend."),
      field("layout", &BetterSetting::layout, "Of its activations."),
      field("ratio", &BetterSetting::ratio, "Its step time over that of the cell's mode and layout.")
          .at_least(0),
      field("date", &BetterSetting::date, "Of the trial: ISO 8601, UTC."));
}

constexpr auto describe(Of<CellReport>) {
  return fields(
      "cell", "One point of the matrix.",
      field("id", &CellReport::id, "Made of the axes; unique in the report.").not_empty(),
      field("axes", &CellReport::axes, "What the id is made of.").inline_before(),
      field("work", &CellReport::work, "What a step does, and what the machine can do.")
          .left_out_by_default(),
      field(
          "kind", &CellReport::kind,
          "The kind of the backend in this mode: a `framework`; `bare`, a vendor's library and nothing else, which "
          "the tax of frameworks is over; an `engine`, such a library with kernels of its own around it (`bare` in "
          "reports before there were engines); or the `oracle`."),
      field("status", &CellReport::status, "How it ended."),
      field("reason", &CellReport::reason, "Why the status is not `ok`."),
      field("reason_code", &CellReport::reason_code,
            "The same as a code that keeps its meaning: see reason codes.")
          .left_out_by_default(),
      field(
          "flags", &CellReport::flags,
          "Quality: empty where at least half of its forks are clean, and only such rows are ranked; else every "
          "flag of its forks.")
          .unique(),
      field("reproduce", &CellReport::reproduce, "A command line that repeats the cell."),
      field(
          "hyper_parameters", &CellReport::hyper_parameters,
          "How training was done: base `learning_rate`, `schedule` (as `--schedule` names it), `augmentation` and "
          "the `optimizer`'s constants; absent for task `infer`.")
          .object()
          .left_out_by_default(),
      field(
          "settings", &CellReport::settings,
          "Everything that was in force, given or by default: how steps were timed, loaded, checked and limited.")
          .object()
          .left_out_by_default(),
      field("backend_version", &CellReport::backend_version, "As the worker said; empty where none started."),
      field("libraries", &CellReport::libraries,
            "What its last worker had loaded; a fork says where it had others.")
          .shaped_as<std::vector<protocol::Library>>(),
      field("equivalence", &CellReport::equivalence, "Whether it computes the same as the oracle."),
      field("check_spent", &CellReport::check_spent, "Where the time of the check before timing went.")
          .left_out_by_default(),
      field(
          "better", &CellReport::better,
          "A faster mode and layout of the same backend for the same work, where `--mode best` found one here.")
          .left_out_by_default(),
      field("published", &CellReport::published, "What others measured.").left_out_by_default(),
      field("metrics", &CellReport::metrics, "By name."),
      field("forks", &CellReport::forks, "Raw, in the order of their rounds."));
}

constexpr auto describe(Of<Report>) {
  return fields(
      "report", "What one run of Assay measured.",
      field("schema", &Report::schema,
            "The version of this format. Readers ignore fields that they do not know."),
      field("schema_minor", &Report::schema_minor,
            "Rises when fields are added that older readers can ignore.")
          .at_least(0)
          .optional(),
      field(
          "rules", &Report::rules,
          "The number of the rules by which flags and metrics were derived from the forks. A reader that has newer "
          "rules derives them anew.")
          .at_least(0)
          .optional(),
      field("run", &Report::run, "How the report came to be.").shaped_as<RunRecord>(),
      field(
          "environment", &Report::environment,
          "The machine and its clocks, as `assay env --json` prints them: processor, topology and caches (by hwloc), "
          "governor, SMT, memory and its huge pages, limits of the control group, address randomisation, load, the "
          "GPUs and their driver (by NVML), and what of it makes numbers unsteady.")
          .object(),
      field("cells", &Report::cells, "In the order in which they were planned."));
}

}  // namespace assay
