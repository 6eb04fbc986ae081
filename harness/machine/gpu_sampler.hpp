// Watches the GPU of a worker from outside, at a low rate.
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harness/machine/gpu_reading.hpp"
#include "harness/machine/nvml.hpp"

namespace assay {

// The environment variables that decide which GPU is CUDA's first in a worker; absent: not set.
struct CudaVisibility {
  std::optional<std::string> devices;  // CUDA_VISIBLE_DEVICES
  std::optional<std::string> order;    // CUDA_DEVICE_ORDER
};

// The GPUs that CUDA finds with this CUDA_VISIBLE_DEVICES on a machine that has `count`, as that variable names them.
std::vector<std::string> visible_gpus(const std::optional<std::string>& devices, unsigned count);
// The name of the GPU of the worker with this number on a machine, by the CUDA_VISIBLE_DEVICES of this process. "-1": there is
// none. `launched`: a launcher may have left this process a single one, which is then its worker's.
std::string gpu_of_worker(int number, bool launched);

// NVML counts GPUs by their place on the bus. CUDA does so only if CUDA_DEVICE_ORDER is PCI_BUS_ID; otherwise
// it counts by speed, which NVML does not know. With several GPUs that case is rejected with a reason.
NvmlResult<Gpu> first_cuda_gpu(const Nvml& nvml, const CudaVisibility& visible);

enum class GpuPhase {
  preparation,  // peaks count
  steps,        // peaks and foreign processes count
  afterwards,   // ignored
};

// Borrows the library. Each look makes about a dozen calls, which take about a millisecond. Processes of the
// worker are those that the caller names, those of the worker's process group, and those below it.
class GpuSampler {
 public:
  GpuSampler(const NvmlAccess& access, const CudaVisibility& visible);

  // `worker`: first its own process, then those below it. Nothing if the GPU cannot be read.
  std::optional<GpuReading> sample(std::span<const pid_t> worker, GpuPhase phase);

  // Everything that was seen. `missing` uses the names of the report's sample fields: "gpu_utilisation".
  GpuUse use() const;
  // For messages about a lack of memory: "of 81559 MiB on the GPU the worker held 80000 at most, and 312 were
  // free at least". Empty if unknown.
  std::string memory_text() const;

 private:
  struct Lack {
    std::string reason;  // of the first failure
    int looks = 0;
  };

  template <typename T>
  std::optional<T> keep(const char* field, NvmlResult<T> told, GpuPhase phase);
  void look_at_processes(GpuReading& reading, std::span<const pid_t> worker, GpuPhase phase);

  std::optional<Gpu> gpu_, board_;  // the latter, of an instance, is the GPU that it is a part of
  GpuUse use_;
  std::map<std::string, Lack> lacks_;
  std::map<pid_t, ForeignProcess> foreign_;
  int looks_ = 0;  // number of looks that count
  std::int64_t total_memory_ = 0;
  bool worker_seen_ = false, stranger_seen_ = false;
};

}  // namespace assay
