// From the raw forks of a cell to its metrics.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/report/report.hpp"

namespace assay {

// Every metric by name: the median over the clean forks (over all ok forks where none is clean) of the fork's
// own value, with an exact interval. A metric is null, with a reason, if one of these forks has no value for
// it. Every metric of a cell that is not ok is null.
//
//   step_time             median over the timed blocks of seconds / steps; if more than one epoch was run,
//                         without the first epoch
//   samples_per_second    batch / step_time
//   flops_per_second      work.flops / step_time; work.flops counts the floating-point operations of the
//                         graph
//   bytes_per_second      work.bytes / step_time; single ops only
//   roofline_share        max(flops / peak_flops, bytes / copy_bandwidth) / step_time; single ops only. It is
//                         above 1 if caches serve what the copy had to fetch from memory
//   compile_time          seconds of the command `compile`
//   training_time         compilation and all epochs, without their evaluations
//   first_epoch_time      compilation and the first epoch
//   epoch_time            mean of the epochs after the first
//   train_accuracy, validation_accuracy, test_accuracy, train_loss, validation_loss, test_loss
//                         the last evaluation of that split
//   first_epoch_accuracy  on the validation split after epoch 1
//   latency_p50, latency_p90, latency_p99, latency_p99.9
//                         over the calls of task infer, each timed from one drained device to the next; null
//                         with fewer than 2, 10, 100 or 1000 calls
//   loader_wait           median over the blocks of step_time of the seconds per step spent waiting for a
//                         batch
//   cpu_utilisation       CPU seconds of the worker / (seconds * threads), over the blocks of step_time; if
//                         the worker has child processes, the mean over the samples of the whole run
//   host_peak_rss         bytes
//   planned_arena, framework_peak
//                         bytes, as the worker reports them
//   device_peak_memory, device_peak_used, gpu_utilisation, gpu_power, energy
//                         cells on cuda only; see gpu_metrics.hpp
Metrics metrics_of(const CellReport& cell);

// Every name that metrics_of() knows.
std::vector<std::string> metric_names();
// One fork's own value, before any median; nothing where it has none or there is no such metric.
std::optional<double> fork_metric(const CellReport& cell, const Fork& fork, std::string_view metric);

}  // namespace assay
