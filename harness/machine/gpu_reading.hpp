// What NVML says of a GPU at one moment, and of the GPU of a worker over its life.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace assay {

// At one moment. What could not be told is absent; GpuUse::missing says why.
struct GpuReading {
  std::optional<double> utilisation;  // 0..1: share of NVML's last sample period with a kernel running
  std::optional<std::int64_t> worker_memory;  // bytes held by the worker and the processes below it
  std::optional<std::int64_t> device_memory;  // bytes in use on the whole GPU, by whomever
  std::optional<double> sm_clock_hz;
  std::optional<double> memory_clock_hz;
  std::optional<double> power_watts;    // as the driver averages it
  std::optional<double> energy_joules;  // a counter: since the driver was loaded
  std::optional<double> temperature_celsius;
  // Why the clocks are below what they could be, as NVML names it: "sw_power_cap".
  std::optional<std::vector<std::string>> throttle;
};

// A process on the GPU that is neither the worker nor below it.
struct ForeignProcess {
  std::int64_t pid = 0;
  std::string name;                    // empty: this system does not show the process
  std::optional<std::int64_t> memory;  // bytes, the most that was seen
};

// Over the life of a worker.
struct GpuUse {
  std::string model, uuid;
  std::string reason;                          // why nothing could be sampled; empty: it was
  std::map<std::string, std::string> missing;  // by the name of a sample's field: why some or all lack it
  // The most that was seen from the worker's start to the end of its timing; absent as `missing` says.
  std::optional<std::int64_t> worker_peak, device_peak;
  std::vector<ForeignProcess> foreign;  // seen while it ran its steps
};

}  // namespace assay
