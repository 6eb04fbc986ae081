// NVIDIA's management library, loaded at its first use: the values of a GPU, one call for each.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/core/error.hpp"

namespace assay {

// The result of a call, or why it failed: "nvmlDeviceGetPowerUsage: Not Supported (3)".
template <typename T>
struct NvmlResult {
  std::optional<T> value;
  std::string reason;
};

struct NvmlError : Error {
  using Error::Error;
};

struct GpuMemory {
  std::int64_t total = 0, used = 0;  // bytes
};
struct GpuProcess {
  pid_t pid = 0;
  std::optional<std::int64_t> memory;  // bytes
};

struct NvmlLibrary;

// A GPU, or an instance of one. Borrows the library. Each call asks the driver, which takes microseconds to
// milliseconds. Units: bytes, Hz, W, J, degrees Celsius.
class Gpu {
 public:
  NvmlResult<std::string> model() const;
  NvmlResult<std::string> uuid() const;  // "GPU-…", "MIG-…"
  NvmlResult<std::string> bus() const;   // "00000000:65:00.0"
  NvmlResult<bool> mig() const;
  NvmlResult<Gpu> first_instance() const;  // of a GPU that is divided
  Gpu board() const;                       // the GPU of an instance; itself, if it is none
  NvmlResult<bool> persistence() const;
  NvmlResult<std::string> compute_mode() const;  // "default", "exclusive_process", …
  NvmlResult<double> sm_clock_limit() const;
  NvmlResult<double> memory_clock_limit() const;
  NvmlResult<double> sm_application_clock() const;
  NvmlResult<double> power_limit() const;

  NvmlResult<double> utilisation() const;  // 0..1, over the library's last sample period: 1/6 s to 1 s
  NvmlResult<GpuMemory> memory() const;
  NvmlResult<std::vector<GpuProcess>> compute_processes() const;
  NvmlResult<std::vector<GpuProcess>> graphics_processes() const;
  NvmlResult<double> sm_clock() const;
  NvmlResult<double> memory_clock() const;
  NvmlResult<double> power() const;
  NvmlResult<double> energy() const;  // counted since the driver was loaded
  NvmlResult<double> temperature() const;
  NvmlResult<std::vector<std::string>> throttle_reasons() const;

 private:
  friend class Nvml;
  Gpu(const NvmlLibrary& library, void* handle) : library_(&library), handle_(handle) {}
  const NvmlLibrary* library_;
  void* handle_;
};

// Use from one thread.
class Nvml {
 public:
  // Loads and initialises the library. Throws NvmlError with the cause and the remedy: no library, no driver,
  // or different versions of the two.
  explicit Nvml(const std::string& library);
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  NvmlResult<std::string> driver() const;   // "550.54.15"
  NvmlResult<std::string> version() const;  // of the library
  NvmlResult<std::string> cuda() const;     // the newest version that the driver supports: "13.0"

  NvmlResult<unsigned> count() const;
  NvmlResult<Gpu> gpu(unsigned index) const;
  NvmlResult<Gpu> gpu_by_uuid(const std::string& uuid) const;

 private:
  std::unique_ptr<NvmlLibrary> library_;
};

// The library of this process, loaded at the first call: $ASSAY_NVML, or the libnvidia-ml.so.1 that the
// loader finds. `nvml` is null if it cannot be used; `reason` says why.
struct NvmlAccess {
  std::unique_ptr<Nvml> nvml;
  std::string reason;
};
const NvmlAccess& nvml_access();

}  // namespace assay
