// NVML's values for a GPU at one moment, and for a worker's GPU over its life.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace assay {

// Values at one moment. Unknown values are absent; GpuUse::missing says why.
struct GpuReading {
  std::optional<double> utilisation;  // 0..1: share of NVML's last sample period with a kernel running
  std::optional<std::int64_t> worker_memory;  // bytes held by the worker and the processes below it
  std::optional<std::int64_t> device_memory;  // bytes in use on the whole GPU, by any process
  std::optional<double> sm_clock_hz;
  std::optional<double> memory_clock_hz;
  std::optional<double> power_watts;    // as the driver averages it
  std::optional<double> energy_joules;  // a counter that starts when the driver is loaded
  std::optional<double> temperature_celsius;
  // Why the clocks are below their maximum, by NVML's names: "sw_power_cap".
  std::optional<std::vector<std::string>> throttle;
};

// A process on the GPU that is neither the worker nor below it.
struct ForeignProcess {
  std::int64_t pid = 0;
  std::string name;                    // empty: this system does not show the process
  std::optional<std::int64_t> memory;  // the maximum seen, in bytes
};

// Over the life of a worker.
struct GpuUse {
  std::string model, uuid;
  std::string reason;  // why nothing could be sampled; empty: sampling worked
  std::map<std::string, std::string>
      missing;  // for the name of a sample's field: why some or all samples lack it
  // The maximum seen from the worker's start to the end of its timing; absent for the reason in `missing`.
  std::optional<std::int64_t> worker_peak, device_peak;
  std::vector<ForeignProcess> foreign;  // seen during its steps
};

}  // namespace assay
