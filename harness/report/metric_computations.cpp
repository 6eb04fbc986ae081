#include "harness/report/metric_computations.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "harness/core/statistics.hpp"
#include "harness/report/exchange_cost.hpp"
#include "harness/report/fork_time.hpp"
#include "harness/report/gpu_metrics.hpp"
#include "harness/report/metric_table.hpp"
#include "harness/report/operator_times.hpp"
#include "harness/report/rank_blocks.hpp"

namespace assay {
namespace {

using Sample = ForkValue;

// Seconds of each epoch, from epoch 1.
std::vector<double> epochs(const Fork& fork) {
  std::vector<double> result;
  for (const Block* block : timed_blocks(fork)) {
    if (block->epoch < 1) continue;
    result.resize(std::max(result.size(), static_cast<std::size_t>(block->epoch)));
    result[static_cast<std::size_t>(block->epoch - 1)] += block_seconds(*block);
  }
  return result;
}

Sample over_blocks(const Fork& fork, double (*value)(const Block&)) {
  std::vector<double> values;
  for (const Block* block : steady_blocks(fork)) values.push_back(value(*block));
  if (values.empty()) return {{}, "no block was timed"};
  return {median(values), ""};
}

Sample training_time(const Fork& fork) {
  const auto each = epochs(fork);
  if (each.empty()) return {{}, "steps were timed, not epochs"};
  double sum = fork.compile_seconds;
  for (const double epoch : each) sum += epoch;
  return {sum, ""};
}

Sample first_epoch_time(const Fork& fork) {
  const auto each = epochs(fork);
  if (each.empty()) return {{}, "steps were timed, not epochs"};
  return {fork.compile_seconds + each.front(), ""};
}

Sample first_epoch_steps(const Fork& fork) {
  const auto each = epochs(fork);
  if (each.empty()) return {{}, "steps were timed, not epochs"};
  return {each.front(), ""};
}

Sample training_cpu_time(const Fork& fork) {
  double sum = 0;
  bool any = false;
  for (const Block* block : timed_blocks(fork)) {
    any = any || block->epoch > 0;
    if (block->epoch > 0) sum += 1e-9 * static_cast<double>(block->cpu_ns);
  }
  if (!any) return {{}, "steps were timed, not epochs"};
  return {sum, ""};
}

Sample epoch_time(const Fork& fork) {
  const auto each = epochs(fork);
  if (each.empty()) return {{}, "steps were timed, not epochs"};
  if (each.size() == 1) return {{}, "only one epoch was run: the mean is over the epochs after the first"};
  double sum = 0;
  for (std::size_t i = 1; i < each.size(); ++i) sum += each[i];
  return {sum / static_cast<double>(each.size() - 1), ""};
}

Sample kernel_time(const Fork& fork) {
  double sum = 0;
  bool any = false;
  for (const protocol::OperatorTime& kernel : fork.operators) {
    const auto seconds = seconds_per_call(kernel);
    if (!seconds) continue;
    sum += *seconds;
    any = true;
  }
  if (!any) return {{}, "kernels are timed only with --profile, by backends that support it"};
  return {sum, ""};
}

Sample last_evaluation(const Fork& fork, DataSplit split, double Evaluation::* field) {
  for (auto it = fork.evaluations.rbegin(); it != fork.evaluations.rend(); ++it) {
    if (it->split == split)
      return std::isfinite((*it).*field) ? Sample{(*it).*field, ""} : Sample{{}, "not finite"};
  }
  return {{}, "evaluated only where epochs are run"};
}

constexpr double percentile_confidence = 0.99;

// A tail needs so many calls that the second largest of them lies beyond it; a median only needs two. `task` says
// whose calls are wanted: the latencies of task decode are those of tokens. `bounded`: the upper bound of the
// percentile instead of its estimate.
Sample latency(const Fork& fork, double p, const Axes& axes, Task task, bool bounded) {
  const bool decodes = axes.task == Task::decode;
  if (decodes != (task == Task::decode) || fork.latencies_ns.empty())
    return {{}, fmt::format("measured only for task {}", to_string(task))};
  const int wanted = p > 0.5 ? values_for_quantile(p, percentile_confidence) : 2;
  if (std::ssize(fork.latencies_ns) < wanted) {
    return {{},
            fmt::format("{} {} were timed, but this percentile needs {}: use more --steps or --block-seconds",
                        fork.latencies_ns.size(), decodes ? "tokens" : "calls", wanted)};
  }
  const std::vector<double> values(fork.latencies_ns.begin(), fork.latencies_ns.end());
  return {1e-9 * (bounded ? quantile_bound(values, p, percentile_confidence).value() : quantile(values, p)),
          ""};
}

Sample prefill_time(const Fork& fork) {
  if (fork.prefills_ns.empty()) return {{}, "measured only for task decode"};
  const std::vector<double> values(fork.prefills_ns.begin(), fork.prefills_ns.end());
  return {1e-9 * median(values), ""};
}

Sample tokens_per_second(const Fork& fork, const Axes& axes) {
  if (axes.task != Task::decode || fork.latencies_ns.empty()) return {{}, "measured only for task decode"};
  double seconds = 0;
  for (const std::int64_t latency : fork.latencies_ns) seconds += 1e-9 * static_cast<double>(latency);
  if (seconds <= 0) return {{}, "the tokens took no time"};
  return {static_cast<double>(axes.batch) * static_cast<double>(fork.latencies_ns.size()) / seconds, ""};
}

Sample first_epoch_accuracy(const Fork& fork) {
  for (const Evaluation& evaluation : fork.evaluations) {
    if (evaluation.epoch == 1 && evaluation.split == DataSplit::validation)
      return std::isfinite(evaluation.accuracy) ? Sample{evaluation.accuracy, ""} : Sample{{}, "not finite"};
  }
  return {{}, "evaluated only where epochs are run"};
}

Sample first_epoch_running_accuracy(const Fork& fork) {
  for (const Block& block : fork.blocks)
    if (block.epoch == 1 && block.accuracy) return {*block.accuracy, ""};
  return {{}, "counted only with --running-accuracy"};
}

Sample time_outside_blocks(const Fork& fork) {
  if (!fork.spent || fork.spent->run <= 0) return {{}, "the report has no such value"};
  double inside = 0;
  for (const Block& block : fork.blocks) inside += block_seconds(block);
  for (const Evaluation& evaluation : fork.evaluations) inside += evaluation.seconds;
  return {std::max(0.0, fork.spent->run - inside), ""};
}

Sample memory(const Fork& fork, const char* name) {
  const auto found = fork.memory.find(name);
  if (found == fork.memory.end()) return {{}, "the backend does not report it"};
  return {static_cast<double>(found->second), ""};
}

// By the clock of the worker's own process over the timed blocks. If the worker has children, which that
// clock cannot see, by the samples of the whole run.
Sample cpu_utilisation(const Fork& fork, double threads) {
  const auto workers = static_cast<int>(std::max<std::size_t>(1, fork.ranks.size()));
  const auto has_children = [&](const MachineSample& sample) { return sample.processes > workers; };
  if (std::any_of(fork.samples.begin(), fork.samples.end(), has_children)) {
    double cores = 0;
    for (const MachineSample& sample : fork.samples) cores += sample.worker_cpu;
    return {cores / static_cast<double>(fork.samples.size()) / threads, ""};
  }
  double busy = 0, all = 0;
  for (const Block* block : steady_blocks(fork)) {
    busy += 1e-9 * static_cast<double>(block->cpu_ns);
    all += block_seconds(*block);
  }
  if (all <= 0) return {{}, "no block was timed"};
  return {busy / all / threads, ""};
}

double step_of(const Block& block) { return block_seconds(block) / static_cast<double>(block.steps); }
double cpu_of(const Block& block) {
  return 1e-9 * static_cast<double>(block.cpu_ns) / static_cast<double>(block.steps);
}

double enqueue_of(const Block& block) {
  return 1e-9 * static_cast<double>(block.enqueue_ns) / static_cast<double>(block.steps);
}

Sample enqueue_time(const Fork& fork) {
  for (const Block* block : steady_blocks(fork))
    if (block->enqueue_ns <= 0) return {{}, "the worker does not report when its steps were enqueued"};
  return over_blocks(fork, enqueue_of);
}

Sample device_step_time(const Fork& fork) {
  if (!fork.device_timed)
    return {
        {},
        "only of a single op on a GPU, if its backend measures it, and not with --quick or --profile, or by an "
        "older program"};
  if (!fork.device_timed->reason.empty()) return {{}, fork.device_timed->reason};
  return {median(fork.device_timed->step_seconds), ""};
}

Sample imbalance(const Fork& fork) {
  if (fork.ranks.empty()) return {{}, "the cell has one rank"};
  const auto ratio = rank_imbalance(fork);
  return {ratio, ratio ? "" : "no block was timed"};
}

Sample start_rss(const Fork& fork) {
  if (fork.host_start_rss == 0) return {{}, "the report has no such value"};
  return {static_cast<double>(fork.host_start_rss), ""};
}

Sample added_memory(const Fork& fork) {
  if (fork.host_start_rss == 0) return {{}, "the report has no such value"};
  return {static_cast<double>(std::max<std::int64_t>(0, fork.host_peak_rss - fork.host_start_rss)), ""};
}

Sample loader_wait(const Fork& fork, LoaderKind loader) {
  if (loader == LoaderKind::resident) return {{}, "resident batches are not loaded while timing"};
  if (loader == LoaderKind::native)
    return {{}, "a framework's own loader does not report how long it was waited for"};
  return over_blocks(fork, [](const Block& block) {
    return 1e-9 * static_cast<double>(block.wait_ns) / static_cast<double>(block.steps);
  });
}

Sample page_faults(const Fork& fork) {
  for (const Block* block : steady_blocks(fork))
    if (!block->minor_faults) return {{}, "the report has no such value"};
  return over_blocks(fork, [](const Block& block) {
    return static_cast<double>(*block.minor_faults) / static_cast<double>(block.steps);
  });
}

// Until the first step is done. A fork of epochs compiles within its first epoch.
Sample first_answer_time(const Fork& fork) {
  if (!epochs(fork).empty()) return {{}, "the first step of an epoch is not timed by itself: use --steps"};
  if (!fork.spent) return {{}, "the report has no such value"};
  return {fork.spent->start + fork.compile_seconds, ""};
}

Computation rate(const char* name, Amount amount) {
  const auto sample = [amount](const Fork& fork) {
    if (amount.value <= 0) return Sample{{}, amount.reason};
    Sample step = over_blocks(fork, step_of);
    if (step.value) step.value = amount.value / *step.value;
    return step;
  };
  return {name, sample, amount};
}

// The minimum time that the machine's peak and copy bandwidth allow.
Amount roofline_time(const Work& work, bool op) {
  if (!op) return {0, "only for single ops"};
  if (work.peak_flops <= 0 || work.copy_bandwidth <= 0)
    return {0, "the machine's peak and copy bandwidth were not measured in this run; use --roofline"};
  return {std::max(work.flops / work.peak_flops, work.bytes / work.copy_bandwidth),
          "neither operations nor bytes are counted for this op"};
}

}  // namespace

std::vector<Computation> computations(const Axes& axes, const Work& work) {
  const double batch = static_cast<double>(axes.batch);
  const bool op = axes.is_op();
  const auto on_gpu = [device = axes.device](Sample (*value)(const Fork&)) {
    return [device, value](const Fork& fork) {
      return device == DeviceKind::cuda ? value(fork) : Sample{{}, "the cell runs on the CPU"};
    };
  };
  const auto energy = [ranks = axes.ranks(), of_gpu = on_gpu(gpu_energy)](const Fork& fork) {
    return ranks > 1 ? Sample{{}, "with several ranks only the GPU of rank 0 is sampled"} : of_gpu(fork);
  };
  const auto percentile = [axes](double p, Task task, bool bounded = false) {
    return [=](const Fork& fork) { return latency(fork, p, axes, task, bounded); };
  };
  const auto worst = [&](const char* name, double p, Task task) {
    return Computation{.name = name, .sample = percentile(p, task), .greatest = true};
  };
  const auto evaluated = [](DataSplit split, double Evaluation::* field) {
    return [split, field](const Fork& fork) { return last_evaluation(fork, split, field); };
  };
  return {
      {"step_time", [](const Fork& fork) { return over_blocks(fork, step_of); }},
      rate("samples_per_second", {batch, "the cell has no batch"}),
      rate("flops_per_second", {work.flops, "no floating-point operation of the step is counted"}),
      rate("bytes_per_second",
           {work.bytes,
            op ? "the op may move nothing" : "counted only for single ops: a network keeps data in caches"}),
      rate("peak_share", {work.peak_flops > 0 ? work.flops / work.peak_flops : 0,
                          "no peak of this machine, or no floating-point operation of the step, is known"}),
      rate("roofline_share", roofline_time(work, op)),
      {"training_time", training_time},
      {"first_epoch_time", first_epoch_time},
      {"first_epoch_steps_time", first_epoch_steps},
      {"epoch_time", epoch_time},
      {"training_cpu_time", training_cpu_time},
      {"train_accuracy", evaluated(DataSplit::train, &Evaluation::accuracy)},
      {"first_epoch_accuracy", first_epoch_accuracy},
      {"first_epoch_running_accuracy", first_epoch_running_accuracy},
      {"validation_accuracy", evaluated(DataSplit::validation, &Evaluation::accuracy)},
      {"test_accuracy", evaluated(DataSplit::test, &Evaluation::accuracy)},
      {"train_loss", evaluated(DataSplit::train, &Evaluation::loss)},
      {"validation_loss", evaluated(DataSplit::validation, &Evaluation::loss)},
      {"test_loss", evaluated(DataSplit::test, &Evaluation::loss)},
      {"latency_p50", percentile(0.5, Task::infer)},
      {"latency_p90", percentile(0.9, Task::infer)},
      {"latency_p99", percentile(0.99, Task::infer)},
      {"latency_p99.9", percentile(0.999, Task::infer)},
      {"latency_p90_bound", percentile(0.9, Task::infer, true)},
      {"latency_p99_bound", percentile(0.99, Task::infer, true)},
      {"latency_p99.9_bound", percentile(0.999, Task::infer, true)},
      worst("latency_p90_worst", 0.9, Task::infer),
      worst("latency_p99_worst", 0.99, Task::infer),
      worst("latency_p99.9_worst", 0.999, Task::infer),
      {"prefill_time", prefill_time},
      {"token_time_p50", percentile(0.5, Task::decode)},
      {"token_time_p99", percentile(0.99, Task::decode)},
      worst("token_time_p99_worst", 0.99, Task::decode),
      {"tokens_per_second", [axes](const Fork& fork) { return tokens_per_second(fork, axes); }},
      {"cache_bytes",
       [axes](const Fork& fork) {
         return axes.task == Task::decode ? memory(fork, "caches")
                                          : Sample{{}, "only task decode has caches"};
       }},
      {"kernel_time", kernel_time},
      {"compile_time", [](const Fork& fork) { return Sample{fork.compile_seconds, ""}; }},
      {"start_time",
       [](const Fork& fork) {
         return fork.spent ? Sample{fork.spent->start, ""} : Sample{{}, "the report has no such value"};
       }},
      {"first_answer_time", first_answer_time},
      {"time_outside_blocks", time_outside_blocks},
      {"enqueue_time", enqueue_time},
      {"device_step_time", device_step_time},
      {"page_faults", page_faults},
      {"rank_imbalance", imbalance},
      {"exchange_share", exchange_share},
      {"exposed_exchange_time", exposed_exchange_time},
      {"hidden_exchange_share", hidden_exchange_share},
      {"bare_exchange_time", bare_exchange_time},
      {"local_step_time", local_step_time},
      {"gradient_bytes", gradient_bytes},
      {"wire_bytes", wire_bytes},
      {"step_cpu_time", [](const Fork& fork) { return over_blocks(fork, cpu_of); }},
      {"loader_wait", [loader = axes.loader](const Fork& fork) { return loader_wait(fork, loader); }},
      {"cpu_utilisation", [threads = static_cast<double>(axes.threads_of_all_ranks())](
                              const Fork& fork) { return cpu_utilisation(fork, threads); }},
      {"host_peak_rss", [](const Fork& fork) { return Sample{static_cast<double>(fork.host_peak_rss), ""}; }},
      {"host_start_rss", start_rss},
      {"host_added_memory", added_memory},
      {"planned_arena", [](const Fork& fork) { return memory(fork, "planned_arena"); }},
      {"installed_size", [](const Fork& fork) { return memory(fork, "installed_size"); }},
      {"framework_peak", [](const Fork& fork) { return memory(fork, "framework_peak"); }},
      {"device_peak_memory", on_gpu(device_peak_memory)},
      {"device_peak_used", on_gpu(device_peak_used)},
      {"gpu_utilisation", on_gpu(gpu_utilisation)},
      {"gpu_power", on_gpu(gpu_power)},
      {"energy", energy},
      {"energy_per_sample",
       [batch, energy](const Fork& fork) {
         Sample one = energy(fork);
         if (one.value) *one.value /= batch;
         return one;
       }},
  };
}

}  // namespace assay
