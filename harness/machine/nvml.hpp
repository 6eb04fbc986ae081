// NVIDIA's management library, loaded when it is first asked for: what it tells of a GPU, call by call.
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

// What a call gave, or why it gave nothing: "nvmlDeviceGetPowerUsage: Not Supported (3)".
template <typename T>
struct Told {
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

// A GPU, or an instance of one. Borrows the library. Each call asks the driver: some microseconds to some
// milliseconds. Units: bytes, Hz, W, J, degrees Celsius.
class Gpu {
 public:
  Told<std::string> model() const;
  Told<std::string> uuid() const;  // "GPU-…", "MIG-…"
  Told<std::string> bus() const;   // "00000000:65:00.0"
  Told<bool> mig() const;
  Told<bool> persistence() const;
  Told<std::string> compute_mode() const;  // "default", "exclusive_process", …
  Told<double> sm_clock_limit() const;
  Told<double> memory_clock_limit() const;
  Told<double> sm_application_clock() const;
  Told<double> power_limit() const;

  Told<double> utilisation() const;  // 0..1, over the library's last sample period: 1/6 s to 1 s
  Told<GpuMemory> memory() const;
  Told<std::vector<GpuProcess>> compute_processes() const;
  Told<std::vector<GpuProcess>> graphics_processes() const;
  Told<double> sm_clock() const;
  Told<double> memory_clock() const;
  Told<double> power() const;
  Told<double> energy() const;  // since the driver was loaded
  Told<double> temperature() const;
  Told<std::vector<std::string>> throttle_reasons() const;

 private:
  friend class Nvml;
  Gpu(const NvmlLibrary& library, void* handle) : library_(&library), handle_(handle) {}
  const NvmlLibrary* library_;
  void* handle_;
};

// Use from one thread.
class Nvml {
 public:
  // Loads and initialises. Throws NvmlError with what is wrong and what helps: no library, no driver, a
  // library and a driver of different versions.
  explicit Nvml(const std::string& library);
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  Told<std::string> driver() const;   // "550.54.15"
  Told<std::string> version() const;  // of the library
  Told<std::string> cuda() const;     // the newest that the driver serves: "13.0"

  Told<unsigned> count() const;
  Told<Gpu> gpu(unsigned index) const;
  Told<Gpu> gpu_by_uuid(const std::string& uuid) const;

 private:
  std::unique_ptr<NvmlLibrary> library_;
};

// The library of this process, loaded at the first call: $ASSAY_NVML, or libnvidia-ml.so.1 wherever the
// loader finds it. `nvml` is null where it cannot be used; `reason` says why.
struct NvmlAccess {
  std::unique_ptr<Nvml> nvml;
  std::string reason;
};
const NvmlAccess& nvml_access();

}  // namespace assay
