#include "harness/report/metric_table.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace assay {

std::span<const MetricRow> metric_table() {
  using enum Better;
  using enum Section;
  // clang-format off
  static constexpr MetricRow rows[] = {
    {"step_time", "s", Hint::duration, lower, times, "step", "time",
     "median over the timed blocks of seconds / steps; without the first epoch if there are more"},
    {"samples_per_second", "1/s", Hint::rate, higher, times, "samples/s", "", "batch / step_time"},
    {"latency_p50", "s", Hint::duration, lower, times, "p50", "",
     "over the calls of task infer, each timed from one drained device to the next; needs 2 calls"},
    {"latency_p90", "s", Hint::duration, lower, times, "p90", "",
     "the same; needs 64 calls, as the early stopping of MLPerf Inference does"},
    {"latency_p99", "s", Hint::duration, lower, times, "p99", "", "the same; needs 662 calls"},
    {"latency_p99.9", "s", Hint::duration, lower, times, "p99.9", "", "the same; needs 6636 calls"},
    {"prefill_time", "s", Hint::duration, lower, times, "prefill", "",
     "task decode: median over the prompts, each timed from one drained device to the next"},
    {"token_time_p50", "s", Hint::duration, lower, times, "token p50", "",
     "task decode: over the tokens after the prompts, timed in the same way; one is a token of each sample of the"
     " batch; needs 2 tokens"},
    {"token_time_p99", "s", Hint::duration, lower, times, "token p99", "",
     "the same; needs 662 tokens; over all positions, of which later ones attend to more tokens: where that costs, it is"
     " the time of a late token and not a pause"},
    {"tokens_per_second", "1/s", Hint::rate, higher, times, "tokens/s", "",
     "task decode: batch / mean time of a token after the prompt"},
    {"latency_p90_bound", "s", Hint::duration, lower, others, "p90 below", "",
     "within a fork latency_p90 is below this with 99 % confidence, an order statistic of its calls; median over forks"},
    {"latency_p99_bound", "s", Hint::duration, lower, others, "p99 below", "", "the same of latency_p99"},
    {"latency_p99.9_bound", "s", Hint::duration, lower, others, "p99.9 below", "", "the same of latency_p99.9"},
    {"latency_p90_worst", "s", Hint::duration, lower, others, "worst p90", "", "latency_p90 of the slowest fork"},
    {"latency_p99_worst", "s", Hint::duration, lower, others, "worst p99", "", "latency_p99 of the slowest fork"},
    {"latency_p99.9_worst", "s", Hint::duration, lower, others, "worst p99.9", "",
     "latency_p99.9 of the slowest fork"},
    {"token_time_p99_worst", "s", Hint::duration, lower, others, "worst token p99", "",
     "token_time_p99 of the slowest fork"},
    {"training_time", "s", Hint::duration, lower, others, "training", "",
     "compilation and all epochs, without their evaluations"},
    {"first_epoch_time", "s", Hint::duration, lower, others, "first epoch", "",
     "compilation and the first epoch"},
    {"epoch_time", "s", Hint::duration, lower, others, "epoch", "", "mean of the epochs after the first"},
    {"compile_time", "s", Hint::duration, lower, others, "compile", "",
     "seconds of the command `compile`, with a first step on zeros"},
    {"start_time", "s", Hint::duration, lower, others, "start", "",
     "from the start of the worker's process to its first message: its imports"},
    {"first_answer_time", "s", Hint::duration, lower, others, "first answer", "",
     "a cold start: start_time + compile_time, to the end of the first step"},
    {"time_outside_blocks", "s", Hint::duration, lower, others, "outside", "",
     "seconds of the answer to `run`, by the conductor's clock, less all blocks and evaluations: staging, loading and the"
     " other untimed work of the worker"},
    {"train_accuracy", "1", Hint::percentage, higher, others, "train acc", "", "of the last evaluation", true},
    {"first_epoch_accuracy", "1", Hint::percentage, higher, others, "epoch 1 acc", "",
     "on the validation split after epoch 1", true},
    {"first_epoch_running_accuracy", "1", Hint::percentage, higher, others, "epoch 1 running", "",
     "of the batches of epoch 1 while it trained, each before its step: with --running-accuracy", true},
    {"validation_accuracy", "1", Hint::percentage, higher, others, "validation acc", "",
     "of the last evaluation", true},
    {"test_accuracy", "1", Hint::percentage, higher, others, "test acc", "", "of the last evaluation", true},
    {"train_loss", "1", Hint::number, lower, others, "train loss", "", "of the last evaluation", true},
    {"validation_loss", "1", Hint::number, lower, others, "validation loss", "", "of the last evaluation", true},
    {"test_loss", "1", Hint::number, lower, others, "test loss", "", "of the last evaluation", true},
    {"distinct_final_states", "1", Hint::count, lower, others, "final states", "",
     "number of different digests among forks with the same seed (--seed-per-round=false): 1 if every repeat ends"
     " with the same bits", true},
    {"bytes_per_second", "B/s", Hint::rate, higher, only_ops, "bytes/s", "traffic",
     "work.bytes / step_time, of a single op"},
    {"flops_per_second", "FLOP/s", Hint::rate, higher, others, "FLOP/s", "arithmetic",
     "work.flops / step_time, the floating-point operations of the graph"},
    {"peak_share", "1", Hint::percentage, higher, others, "of peak", "",
     "flops_per_second / peak_flops, what the fastest matrix product reached on this machine in this precision; where"
     " it is known: on GPUs, and on a CPU for fast cells; fast convolutions compute less than is counted"},
    {"roofline_share", "1", Hint::percentage, higher, only_ops, "roofline", "of roofline",
     "max(flops / peak_flops, bytes / copy_bandwidth) / step_time, of a single op; above 1 if caches hold data"
     " that the copy read from memory"},
    {"loader_wait", "s", Hint::duration, lower, others, "loader wait", "",
     "median over the blocks of step_time of the seconds that a step waits for its batch; null for a framework's own"
     " loader, which does not report it"},
    {"kernel_time", "s", Hint::duration, lower, others, "kernels", "",
     "with --profile: the sum over the kernels of a step of the mean time of each"},
    {"cpu_utilisation", "1", Hint::percentage, neither, others, "CPU", "",
     "CPU seconds of the worker / (seconds * threads) over the blocks of step_time, also those of threads that"
     " spin while they wait; with child processes the mean over the samples of the whole run"},
    {"enqueue_time", "s", Hint::duration, lower, others, "enqueue", "",
     "median over the blocks of step_time of the seconds until all steps were handed over / steps, before the"
     " device is drained; near step_time if a step returns only when it is done"},
    {"device_step_time", "s", Hint::duration, lower, only_ops, "on the device", "on the device",
     "of a single op on a GPU, where the backend measures it: median over a few runs after the timed steps of the"
     " seconds of a step by the device's clock, with many steps handed over at once; step_time has the host's launch"
     " of each step, too, and enqueue_time has only that"},
    {"step_cpu_time", "s", Hint::duration, lower, others, "CPU time", "",
     "median over the blocks of step_time of the CPU seconds of the worker's process / steps"},
    {"training_cpu_time", "s", Hint::duration, lower, others, "training CPU", "",
     "CPU seconds of the worker's process in all epochs, without compilation and evaluations"},
    {"first_epoch_steps_time", "s", Hint::duration, lower, others, "epoch 1", "",
     "the first epoch without compilation"},
    {"page_faults", "1", Hint::number, lower, others, "page faults", "",
     "median over the blocks of step_time of the page faults that no disk served / steps: pages of memory that"
     " a step had to ask the system for (see --allocator)"},
    {"rank_imbalance", "1", Hint::ratio, lower, others, "imbalance", "",
     "with several ranks: median over the blocks of step_time of the slowest rank's seconds over the mean of all ranks';"
     " near 1 where ranks wait for each other within a step"},
    {"exchange_share", "1", Hint::percentage, lower, others, "exchange", "",
     "with several ranks: exposed_exchange_time / the time of the same steps: the share of a step that the exchange of"
     " gradients adds; noise can make it negative", false, true},
    {"exposed_exchange_time", "s", Hint::duration, lower, others, "exposed", "",
     "with several ranks: median over the rounds after the timed steps of the time of a step less local_step_time of"
     " that round; noise can make it negative", false, true},
    {"hidden_exchange_share", "1", Hint::percentage, higher, others, "hidden", "",
     "with several ranks: 1 - exposed_exchange_time / bare_exchange_time: the share of the exchange that runs while the"
     " ranks compute; negative if the exchange costs a step more than it takes by itself", false, true},
    {"bare_exchange_time", "s", Hint::duration, lower, others, "bare exchange", "",
     "with several ranks: median over these rounds of an exchange of as many bytes with nothing else going on, of the"
     " slowest rank"},
    {"local_step_time", "s", Hint::duration, lower, others, "local step", "",
     "with several ranks: median over these rounds of the same step without the exchange, of the slowest rank: each"
     " rank updates with its own gradients"},
    {"gradient_bytes", "B", Hint::bytes, lower, others, "gradients", "",
     "with several ranks: bytes of the gradients that each rank gives to the exchange in a step", true},
    {"wire_bytes", "B", Hint::bytes, lower, others, "on the wire", "",
     "with several ranks: bytes that the loopback interface sent during the run / all its steps / the ranks; with"
     " headers, and with what other processes send there; about 0 if ranks share memory instead"},
    {"gpu_utilisation", "1", Hint::percentage, neither, others, "GPU", "",
     "mean of the samples in the timed blocks"},
    {"gpu_power", "W", Hint::power, lower, others, "GPU power", "",
     "over the timed blocks, by the energy counter"},
    {"planned_arena", "B", Hint::bytes, lower, others, "arena", "", "as the worker reports it", true},
    {"framework_peak", "B", Hint::bytes, lower, others, "framework peak", "",
     "as the framework counts it since its process began, with compilation and warm-up", true},
    {"cache_bytes", "B", Hint::bytes, lower, others, "caches", "",
     "task decode: keys and values of all layers and samples, as the worker reports it", true},
    {"device_peak_memory", "B", Hint::bytes, lower, others, "GPU memory", "",
     "the worker's maximum on the GPU", true},
    {"device_peak_used", "B", Hint::bytes, lower, others, "GPU in use", "",
     "the GPU's maximum, of all processes that use it", true},
    {"host_peak_rss", "B", Hint::bytes, lower, others, "host RSS", "",
     "maximum of the resident memory of the worker's process until the end of its run, with the pages of files that it"
     " maps (libraries, data)", true},
    {"host_start_rss", "B", Hint::bytes, lower, others, "start RSS", "",
     "of the worker's process when it said hello: what host_peak_rss has of an interpreter and a framework", true},
    {"host_added_memory", "B", Hint::bytes, lower, others, "added memory", "",
     "host_peak_rss - host_start_rss: what the network, its data and its training add to the framework", true},
    {"installed_size", "B", Hint::bytes, lower, only_ops, "installed", "",
     "of the files that the backend needs: a framework's virtual environment when it was set up, with its Python packages;"
     " for a worker in C++ the program and the shared libraries that it has loaded", true},
    {"energy", "J", Hint::energy, lower, others, "energy", "", "gpu_power * seconds per step"},
    {"energy_per_sample", "J", Hint::energy, lower, others, "energy/sample", "", "energy / batch"},
    {"plan_naive", "B", Hint::bytes, lower, memory_plans, "naive", "",
     "the arena of a step if every tensor has its own bytes"},
    {"plan_in_place", "B", Hint::bytes, lower, memory_plans, "in place", "",
     "the arena if results overwrite operands that die there"},
    {"plan_co_share_only", "B", Hint::bytes, lower, memory_plans, "co-share", "",
     "the arena if only tensors that never live together share bytes"},
    {"plan_co_share", "B", Hint::bytes, lower, memory_plans, "in place + co-share", "",
     "the arena of both"},
    {"plan_saving", "1", Hint::ratio, higher, memory_plans, "saving", "", "plan_naive / plan_co_share"},
    {"plan_lower_bound", "B", Hint::bytes, lower, memory_plans, "lower bound", "",
     "the maximum of bytes that live at the same time"},
  };
  // clang-format on
  return rows;
}

const MetricRow* find_metric(std::string_view name) {
  const auto rows = metric_table();
  const auto found =
      std::find_if(rows.begin(), rows.end(), [&](const auto& row) { return row.name == name; });
  return found == rows.end() ? nullptr : &*found;
}

Metric described_metric(std::string_view name) {
  const MetricRow* row = find_metric(name);
  if (!row) throw std::logic_error("the metric table has no row for " + std::string(name));
  Metric metric;
  metric.unit = row->unit;
  metric.hint = row->hint;
  return metric;
}

bool higher_is_better(std::string_view name) {
  const MetricRow* row = find_metric(name);
  return row && row->better == Better::higher;
}

}  // namespace assay
