// The GPU during the timed steps of a fork, from the NVML samples of the conductor.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/report/report.hpp"

namespace assay {

// A fork's own value, or why it has none.
struct ForkValue {
  std::optional<double> value;
  std::string reason;
};

// 0..1: the mean of the samples in the timed blocks that follow at least a second of steps, including
// warm-up: NVML's utilisation covers up to the last second.
ForkValue gpu_utilisation(const Fork& fork);
// Watts over the timed blocks, from the energy counter, interpolated between samples at the ends of each
// block. Null if the blocks contain fewer than two samples or if less than 0.9 of their time is between
// samples.
ForkValue gpu_power(const Fork& fork);
// Joules for each step: the power times the seconds of the timed blocks over their steps.
ForkValue gpu_energy(const Fork& fork);
// Maximum in bytes, from the worker's start to the end of its steps: of the worker and the processes below
// it, and of all processes on the GPU.
ForkValue device_peak_memory(const Fork& fork);
ForkValue device_peak_used(const Fork& fork);

// The samples within the timed blocks.
std::vector<const MachineSample*> timed_gpu_samples(const Fork& fork);

}  // namespace assay
