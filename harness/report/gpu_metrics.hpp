// What a fork did to the GPU while its steps were timed, from the samples of NVML that the conductor took.
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

// 0..1: the mean of the samples that were taken during the timed blocks with a second of steps, warm-up
// included, before them: NVML's utilisation is over up to a second that has passed.
ForkValue gpu_utilisation(const Fork& fork);
// Watts over the timed blocks, by the energy counter, interpolated between samples at each block's ends. Null
// where two samples do not fall into the blocks or less than 0.9 of their time lies between samples.
ForkValue gpu_power(const Fork& fork);
// Joules a step: the power times the seconds of the timed blocks over their steps.
ForkValue gpu_energy(const Fork& fork);
// Bytes, the most that was seen from the worker's start to the end of its steps: of the worker and the
// processes below it, and of all that uses the GPU.
ForkValue device_peak_memory(const Fork& fork);
ForkValue device_peak_used(const Fork& fork);

// The samples within the timed blocks.
std::vector<const MachineSample*> timed_gpu_samples(const Fork& fork);

}  // namespace assay
