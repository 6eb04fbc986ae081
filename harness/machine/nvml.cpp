#include "harness/machine/nvml.hpp"

#include <array>
#include <cstdlib>
#include <map>
#include <string>
#include <utility>

#include "harness/core/paths.hpp"
#include "harness/machine/nvml_library.hpp"

// A function's name and its address.
#define ASSAY_NVML(function) #function, library_->functions.function
// A function's name, its address and its device.
#define ASSAY_NVML_DEVICE(function) \
  #function, library_->functions.function, static_cast<nvml::Device>(handle_)

namespace assay {

Nvml::Nvml(const std::string& library) : library_(std::make_unique<NvmlLibrary>(library)) {}
Nvml::~Nvml() = default;

NvmlResult<std::string> Nvml::driver() const {
  return library_->text(ASSAY_NVML(nvmlSystemGetDriverVersion));
}
NvmlResult<std::string> Nvml::version() const { return library_->text(ASSAY_NVML(nvmlSystemGetNVMLVersion)); }
NvmlResult<std::string> Nvml::cuda() const {
  int version = 0;  // 13000: 13.0
  if (std::string why = library_->ask(ASSAY_NVML(nvmlSystemGetCudaDriverVersion), &version); !why.empty())
    return {std::nullopt, std::move(why)};
  return {fmt::format("{}.{}", version / 1000, version % 1000 / 10), ""};
}

NvmlResult<unsigned> Nvml::count() const {
  unsigned count = 0;
  if (std::string why = library_->ask(ASSAY_NVML(nvmlDeviceGetCount_v2), &count); !why.empty())
    return {std::nullopt, std::move(why)};
  return {count, ""};
}

NvmlResult<Gpu> Nvml::gpu(unsigned index) const {
  nvml::Device device = nullptr;
  if (std::string why = library_->ask(ASSAY_NVML(nvmlDeviceGetHandleByIndex_v2), index, &device);
      !why.empty())
    return {std::nullopt, std::move(why)};
  return {Gpu(*library_, device), ""};
}

NvmlResult<Gpu> Nvml::gpu_by_uuid(const std::string& uuid) const {
  nvml::Device device = nullptr;
  if (std::string why = library_->ask(ASSAY_NVML(nvmlDeviceGetHandleByUUID), uuid.c_str(), &device);
      !why.empty())
    return {std::nullopt, std::move(why)};
  return {Gpu(*library_, device), ""};
}

const NvmlAccess& nvml_access() {
  static std::map<std::string, NvmlAccess> loaded;
  const std::string named = environment_text("ASSAY_NVML");
  const std::string library = named.empty() ? "libnvidia-ml.so.1" : named;
  const auto [entry, is_new] = loaded.try_emplace(library);
  NvmlAccess& access = entry->second;
  if (!is_new) return access;
  try {
    access.nvml = std::make_unique<Nvml>(library);
  } catch (const NvmlError& error) {
    access.reason = error.what();
  }
  return access;
}

namespace {

using nvml::Clock;

// nvmlClocksEventReasons, formerly nvmlClocksThrottleReasons. Idle is left out: it does not make a number
// doubtful.
constexpr std::array<std::pair<unsigned long long, const char*>, 8> throttle_names{
    {{0x2, "applications_clocks_setting"},
     {0x4, "sw_power_cap"},
     {0x8, "hw_slowdown"},
     {0x10, "sync_boost"},
     {0x20, "sw_thermal_slowdown"},
     {0x40, "hw_thermal_slowdown"},
     {0x80, "hw_power_brake_slowdown"},
     {0x100, "display_clock_setting"}}};

constexpr std::array compute_modes{"default", "exclusive_thread", "prohibited", "exclusive_process"};

template <typename To, typename From, typename F>
NvmlResult<To> mapped(const NvmlResult<From>& from, F make) {
  if (!from.value) return {std::nullopt, from.reason};
  return {make(*from.value), ""};
}

double megahertz(unsigned value) { return 1e6 * value; }
double milli(unsigned long long value) { return static_cast<double>(value) / 1000.0; }

}  // namespace

NvmlResult<std::string> Gpu::model() const { return library_->text(ASSAY_NVML_DEVICE(nvmlDeviceGetName)); }
NvmlResult<std::string> Gpu::uuid() const { return library_->text(ASSAY_NVML_DEVICE(nvmlDeviceGetUUID)); }

NvmlResult<std::string> Gpu::bus() const {
  return mapped<std::string>(library_->number<nvml::PciInfo>(ASSAY_NVML_DEVICE(nvmlDeviceGetPciInfo_v3)),
                             [](const nvml::PciInfo& info) {
                               return std::string(info.bus_id, ::strnlen(info.bus_id, sizeof info.bus_id));
                             });
}

NvmlResult<bool> Gpu::mig() const {
  unsigned current = 0, pending = 0;
  if (std::string why = library_->ask(ASSAY_NVML_DEVICE(nvmlDeviceGetMigMode), &current, &pending);
      !why.empty())
    return {std::nullopt, std::move(why)};
  return {current != 0, ""};
}

// The places of instances may have gaps.
NvmlResult<Gpu> Gpu::first_instance() const {
  const auto places = library_->number<unsigned>(ASSAY_NVML_DEVICE(nvmlDeviceGetMaxMigDeviceCount));
  if (!places.value) return {std::nullopt, places.reason};
  std::string why = "it is divided (MIG) and has no instance";
  for (unsigned place = 0; place < *places.value; ++place) {
    nvml::Device instance = nullptr;
    std::string missing =
        library_->ask(ASSAY_NVML_DEVICE(nvmlDeviceGetMigDeviceHandleByIndex), place, &instance);
    if (missing.empty()) return {Gpu(*library_, instance), ""};
    if (place == 0) why += ": " + missing;
  }
  return {std::nullopt, why};
}

Gpu Gpu::board() const {
  nvml::Device whole = nullptr;
  const std::string why =
      library_->ask(ASSAY_NVML_DEVICE(nvmlDeviceGetDeviceHandleFromMigDeviceHandle), &whole);
  return why.empty() && whole != nullptr ? Gpu(*library_, whole) : *this;
}

NvmlResult<bool> Gpu::persistence() const {
  return mapped<bool>(library_->number<int>(ASSAY_NVML_DEVICE(nvmlDeviceGetPersistenceMode)),
                      [](int mode) { return mode != 0; });
}

NvmlResult<std::string> Gpu::compute_mode() const {
  return mapped<std::string>(
      library_->number<int>(ASSAY_NVML_DEVICE(nvmlDeviceGetComputeMode)), [](int mode) {
        const auto known = static_cast<std::size_t>(mode) < compute_modes.size();
        return known ? std::string(compute_modes[static_cast<std::size_t>(mode)]) : std::to_string(mode);
      });
}

NvmlResult<double> Gpu::sm_clock_limit() const {
  return mapped<double>(library_->number<unsigned>(ASSAY_NVML_DEVICE(nvmlDeviceGetMaxClockInfo), Clock::sm),
                        megahertz);
}
NvmlResult<double> Gpu::memory_clock_limit() const {
  return mapped<double>(
      library_->number<unsigned>(ASSAY_NVML_DEVICE(nvmlDeviceGetMaxClockInfo), Clock::memory), megahertz);
}
NvmlResult<double> Gpu::sm_application_clock() const {
  return mapped<double>(
      library_->number<unsigned>(ASSAY_NVML_DEVICE(nvmlDeviceGetApplicationsClock), Clock::sm), megahertz);
}
NvmlResult<double> Gpu::power_limit() const {
  return mapped<double>(library_->number<unsigned>(ASSAY_NVML_DEVICE(nvmlDeviceGetEnforcedPowerLimit)),
                        milli);
}

NvmlResult<double> Gpu::utilisation() const {
  return mapped<double>(library_->number<nvml::Utilization>(ASSAY_NVML_DEVICE(nvmlDeviceGetUtilizationRates)),
                        [](const nvml::Utilization& rates) { return rates.gpu / 100.0; });
}

NvmlResult<GpuMemory> Gpu::memory() const {
  const auto bytes = [](const auto& memory) {
    return GpuMemory{static_cast<std::int64_t>(memory.total), static_cast<std::int64_t>(memory.used)};
  };
  nvml::MemoryV2 newer{};
  newer.version = nvml::memory_v2;
  if (library_->ask(ASSAY_NVML_DEVICE(nvmlDeviceGetMemoryInfo_v2), &newer).empty()) return {bytes(newer), ""};
  return mapped<GpuMemory>(library_->number<nvml::Memory>(ASSAY_NVML_DEVICE(nvmlDeviceGetMemoryInfo)), bytes);
}

NvmlResult<std::vector<GpuProcess>> Gpu::compute_processes() const {
  const nvml::Functions& f = library_->functions;
  return library_->processes("nvmlDeviceGetComputeRunningProcesses", static_cast<nvml::Device>(handle_),
                             f.nvmlDeviceGetComputeRunningProcesses,
                             f.nvmlDeviceGetComputeRunningProcesses_v2,
                             f.nvmlDeviceGetComputeRunningProcesses_v3);
}
NvmlResult<std::vector<GpuProcess>> Gpu::graphics_processes() const {
  const nvml::Functions& f = library_->functions;
  return library_->processes("nvmlDeviceGetGraphicsRunningProcesses", static_cast<nvml::Device>(handle_),
                             f.nvmlDeviceGetGraphicsRunningProcesses,
                             f.nvmlDeviceGetGraphicsRunningProcesses_v2,
                             f.nvmlDeviceGetGraphicsRunningProcesses_v3);
}

NvmlResult<double> Gpu::sm_clock() const {
  return mapped<double>(library_->number<unsigned>(ASSAY_NVML_DEVICE(nvmlDeviceGetClockInfo), Clock::sm),
                        megahertz);
}
NvmlResult<double> Gpu::memory_clock() const {
  return mapped<double>(library_->number<unsigned>(ASSAY_NVML_DEVICE(nvmlDeviceGetClockInfo), Clock::memory),
                        megahertz);
}
NvmlResult<double> Gpu::power() const {
  return mapped<double>(library_->number<unsigned>(ASSAY_NVML_DEVICE(nvmlDeviceGetPowerUsage)), milli);
}
NvmlResult<double> Gpu::energy() const {
  return mapped<double>(
      library_->number<unsigned long long>(ASSAY_NVML_DEVICE(nvmlDeviceGetTotalEnergyConsumption)), milli);
}
NvmlResult<double> Gpu::temperature() const {
  return mapped<double>(
      library_->number<unsigned>(ASSAY_NVML_DEVICE(nvmlDeviceGetTemperature), nvml::die_temperature),
      [](unsigned degrees) { return static_cast<double>(degrees); });
}

NvmlResult<std::vector<std::string>> Gpu::throttle_reasons() const {
  auto bits = library_->number<unsigned long long>(ASSAY_NVML_DEVICE(nvmlDeviceGetCurrentClocksEventReasons));
  if (!library_->functions.nvmlDeviceGetCurrentClocksEventReasons)  // before driver 535
    bits = library_->number<unsigned long long>(ASSAY_NVML_DEVICE(nvmlDeviceGetCurrentClocksThrottleReasons));
  return mapped<std::vector<std::string>>(bits, [](unsigned long long set) {
    std::vector<std::string> names;
    for (const auto& [bit, name] : throttle_names)
      if (set & bit) names.emplace_back(name);
    return names;
  });
}

}  // namespace assay
