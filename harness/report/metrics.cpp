#include "harness/report/metrics.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

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
  for (const nlohmann::json& kernel : fork.operators) {
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

// The work of a step, for a rate.
struct Amount {
  double value = 0;  // 0: unknown, see the reason
  std::string reason{};
};

// How to compute a fork's own value of a metric from its raw numbers.
struct Computation {
  const char* name;  // in the metric table
  std::function<Sample(const Fork&)> sample;
  // For a rate: the amount that is divided by the step time. The metric divides it by the metric step_time,
  // so that the two agree: the median of an even number of rates would be another number.
  std::optional<Amount> amount{};
  bool greatest = false;  // the metric is the greatest value of a fork, not the median
};

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

std::vector<Computation> computations(const Axes& axes, const Work& work) {
  const double batch = static_cast<double>(axes.batch);
  const bool op = axes.is_op();
  const auto on_gpu = [device = axes.device](Sample (*value)(const Fork&)) {
    return [device, value](const Fork& fork) {
      return device == DeviceKind::cuda ? value(fork) : Sample{{}, "the cell runs on the CPU"};
    };
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
      {"energy", on_gpu(gpu_energy)},
  };
}

// If a fork has no value the metric is null, because a median over fewer forks would have another meaning.
Metric over_forks(const Computation& row, const std::vector<const Fork*>& forks) {
  Metric metric = described_metric(row.name);
  std::vector<double> values;
  for (const Fork* fork : forks) {
    const Sample sample = row.sample(*fork);
    if (!sample.value || !std::isfinite(*sample.value)) {
      metric.reason = sample.reason.empty() ? "not finite" : sample.reason;
      return metric;
    }
    values.push_back(*sample.value);
  }
  if (values.empty()) {
    metric.reason = "every fork ran in the process of an earlier one";
    return metric;
  }
  metric.n = static_cast<int>(values.size());
  if (row.greatest) {
    metric.value = *std::ranges::max_element(values);
    return metric;
  }
  metric.value = median(values);
  if (follows_from_seed(row.name)) {
    std::set<std::pair<std::uint64_t, double>> observed;
    for (std::size_t i = 0; i < values.size(); ++i) observed.emplace(forks[i]->seed, values[i]);
    values.clear();
    for (const auto& [seed, value] : observed) values.push_back(value);
  }
  if (const auto interval = median_interval(values)) {
    metric.lower = interval->lower;
    metric.upper = interval->upper;
    metric.confidence = interval->confidence;
  }
  return metric;
}

Metric over_step_time(const Computation& row, const Metric& step) {
  Metric metric = described_metric(row.name);
  if (row.amount->value <= 0) {
    metric.reason = row.amount->reason;
    return metric;
  }
  if (!step.value || *step.value <= 0) {
    metric.reason = step.value ? "a step took no time" : step.reason;
    return metric;
  }
  metric.value = row.amount->value / *step.value;
  metric.n = step.n;
  if (step.lower && step.upper && *step.lower > 0) {
    metric.lower = row.amount->value / *step.upper;
    metric.upper = row.amount->value / *step.lower;
    metric.confidence = step.confidence;
  }
  return metric;
}

std::string not_ok(const CellReport& cell) { return fmt::format("the cell is {}", to_string(cell.status)); }

// Not a median: it is counted over all forks together.
Metric distinct_final_states(const CellReport& cell) {
  Metric metric = described_metric("distinct_final_states");
  std::set<std::uint64_t> seeds;
  std::set<std::string> digests;
  const std::vector<const Fork*> forks = ok_forks(cell);
  for (const Fork* fork : forks) {
    seeds.insert(fork->seed);
    digests.insert(fork->parameters_digest);
  }
  if (cell.status != Status::ok) {
    metric.reason = not_ok(cell);
  } else if (forks.size() < 2) {
    metric.reason = "a second fork is needed for the comparison";
  } else if (seeds.size() > 1) {
    metric.reason = "each round has its own seed; use --seed-per-round=false";
  } else if (digests.contains("")) {
    metric.reason = "the final state has no digest";
  } else {
    metric.value = static_cast<double>(digests.size());
    metric.n = static_cast<int>(forks.size());
  }
  return metric;
}

}  // namespace

std::vector<const Fork*> forks_of_metric(const CellReport& cell, std::string_view name) {
  const MetricRow* row = find_metric(name);
  if (row && row->every_fork) return ok_forks(cell);
  std::vector<const Fork*> forks = counted_forks(cell);
  if (name != "compile_time" && name != "start_time" && name != "first_answer_time") return forks;
  const auto is_resident = [](const Fork* fork) { return fork->resident; };
  std::erase_if(forks, is_resident);
  if (!forks.empty()) return forks;
  forks = ok_forks(cell);
  std::erase_if(forks, is_resident);
  return forks;
}

std::optional<double> fork_metric(const CellReport& cell, const Fork& fork, std::string_view metric) {
  for (const Computation& row : computations(cell.axes, cell.work)) {
    if (row.name != metric) continue;
    const Sample sample = row.sample(fork);
    return sample.value && std::isfinite(*sample.value) ? sample.value : std::nullopt;
  }
  return std::nullopt;
}

Metrics metrics_of(const CellReport& cell) {
  const bool timed = !counted_forks(cell).empty();
  Metrics metrics;
  for (const Computation& row : computations(cell.axes, cell.work)) {
    Metric& metric = metrics[row.name];
    if (cell.status != Status::ok || !timed) {
      metric = described_metric(row.name);
      metric.reason = cell.status == Status::ok ? "no fork was timed" : not_ok(cell);
    } else if (row.amount) {
      metric = over_step_time(row, metrics.at("step_time"));
    } else {
      metric = over_forks(row, forks_of_metric(cell, row.name));
    }
  }
  metrics["distinct_final_states"] = distinct_final_states(cell);
  return metrics;
}

namespace {

// Before these rules, flags described how busy the fork's own threads were.
constexpr int rules_of_disturbance = 2;

// Up to rules 3 a fork was also marked for what happened to another one of its round.
constexpr std::string_view mark_of_rounds = "_round";

// Keeps the flags of a fork by older rules that still exist.
void take_older_flags(Fork& fork, int rules) {
  std::vector<std::string> kept;
  for (const std::string& flag : fork.flags) {
    const bool of_the_machine =
        flag == quality_flag::disturbed || flag == quality_flag::placement || flag == quality_flag::stolen;
    const bool known = flag == quality_flag::profiled || flag == quality_flag::throttled ||
                       flag == quality_flag::quota || flag == quality_flag::frozen ||
                       flag == quality_flag::fewer_threads ||
                       (of_the_machine && rules >= rules_of_disturbance);
    if (known)
      kept.push_back(flag);
    else if (!flag.ends_with(mark_of_rounds))
      fork.warnings.push_back(
          fmt::format("flagged {} by rules {}, which used the fork's own threads", flag, rules));
  }
  fork.flags = std::move(kept);
}

}  // namespace

void derive_from_forks(CellReport& cell) {
  cell.flags = quality_flags(cell.forks);
  Metrics metrics = metrics_of(cell);
  metrics.merge(cell.metrics);
  cell.metrics = std::move(metrics);
}

void derive_again(Report& report) {
  if (report.rules >= derivation_rules) return;
  for (CellReport& cell : report.cells)
    for (Fork& fork : cell.forks) take_older_flags(fork, report.rules);
  mark_disturbances(report.cells);
  for (CellReport& cell : report.cells) derive_from_forks(cell);
  report.rules = derivation_rules;
}

}  // namespace assay
