// From the raw forks of a cell to its metrics.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/report/report.hpp"

namespace assay {

// Every metric by name, over the clean forks (over all that are ok where none is clean): the median of the
// forks' own values with its exact interval. Null with a reason where there is nothing to say. A cell that is
// not ok has nulls alone.
//   step_time            per fork the median over timed blocks of seconds / steps; an epochs fork of more
//   than one epoch without
//                        its first
//   samples_per_second   batch / step_time
//   flops_per_second     work.flops / step_time, the floating-point operations of the graph
//   bytes_per_second     work.bytes / step_time; of a single op
//   roofline_share       max(flops / peak_flops, bytes / copy_bandwidth) / step_time; of a single op. Above 1
//   where caches serve what
//                        the copy had to fetch from memory
//   training_time        compilation and all epochs without their evaluations
//   first_epoch_time     compilation and the first epoch
//   epoch_time           mean of the epochs after the first
//   first_epoch_accuracy on the validation split after epoch 1
//   latency_p50, _p90, _p99, _p99.9   over the calls of task infer, each timed alone from a drained device to
//   the
//                        next; null where fewer than 2, 10, 100 or 1000 were
//   loader_wait          seconds a step spent waiting for its batch, within step_time
//   cpu_utilisation      CPU seconds of the worker over seconds and threads, in the timed blocks
//   planned_arena, framework_peak     bytes as the worker names them
//   device_peak_memory, device_peak_used, gpu_utilisation, gpu_power, energy   gpu_metrics.hpp; of cells on
//   cuda
Metrics metrics_of(const CellReport& cell);

// Every name that metrics_of() knows.
std::vector<std::string> metric_names();
// One fork's own value, before any median; nothing where it has none or there is no such metric.
std::optional<double> fork_metric(const CellReport& cell, const Fork& fork, std::string_view metric);

}  // namespace assay
