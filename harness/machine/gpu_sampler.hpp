// The GPU that a worker uses, seen from outside at a low rate.
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <span>
#include <string>

#include "harness/machine/gpu_reading.hpp"
#include "harness/machine/nvml.hpp"

namespace assay {

// What of its environment says which GPU is CUDA's first in a worker; absent: not set.
struct CudaVisibility {
  std::optional<std::string> devices;  // CUDA_VISIBLE_DEVICES
  std::optional<std::string> order;    // CUDA_DEVICE_ORDER
};

// NVML counts by the place on the bus, CUDA does so where CUDA_DEVICE_ORDER is PCI_BUS_ID; by the speed
// otherwise, which NVML does not know: with several GPUs that is refused with a reason.
Told<Gpu> first_cuda_gpu(const Nvml& nvml, const CudaVisibility& visible);

enum class GpuPhase {
  preparation,  // peaks count
  steps,        // peaks and foreign processes count
  afterwards,   // nothing counts
};

// Borrows the library. Each look asks it a dozen times: a millisecond or so. Processes of the worker are
// those that the caller names, those of the worker's process group, and those below it.
class GpuSampler {
 public:
  GpuSampler(const NvmlAccess& access, const CudaVisibility& visible);

  // `worker`: its own process first, then those below it. Nothing where the GPU cannot be asked.
  std::optional<GpuReading> sample(std::span<const pid_t> worker, GpuPhase phase);

  // All that was seen. `missing` names the fields as the report's samples do: "gpu_utilisation".
  GpuUse use() const;
  // For who ran out of it: "of 81559 MiB on the GPU the worker held 80000 at most, and 312 were free at
  // the least". Empty where that is not known.
  std::string memory_text() const;

 private:
  struct Lack {
    std::string reason;  // the first
    int looks = 0;
  };

  template <typename T>
  std::optional<T> keep(const char* field, Told<T> told, GpuPhase phase);
  void look_at_processes(GpuReading& reading, std::span<const pid_t> worker, GpuPhase phase);

  std::optional<Gpu> gpu_;
  GpuUse use_;
  std::map<std::string, Lack> lacks_;
  std::map<pid_t, ForeignProcess> foreign_;
  int looks_ = 0;  // that count
  std::int64_t total_memory_ = 0;
  bool worker_seen_ = false, stranger_seen_ = false;
};

}  // namespace assay
