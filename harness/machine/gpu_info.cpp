#include "harness/machine/hardware_info.hpp"

#include <map>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "harness/machine/system_files.hpp"

namespace assay {
namespace {

namespace fs = std::filesystem;

// Takes what NVML says of a GPU; a value that it does not say is null, with its reason.
class Told {
 public:
  explicit Told(GpuRecord& gpu) : gpu_(gpu) { gpu_.not_told.emplace(); }
  template <typename T>
  void add(const char* name, Reported<T> GpuRecord::* field, const NvmlResult<T>& told) {
    gpu_.*field = told.value;
    if (!told.value) (*gpu_.not_told)[name] = told.reason;
  }

 private:
  GpuRecord& gpu_;
};

std::vector<GpuProcessRecord> processes_on(const Gpu& gpu) {
  std::vector<GpuProcessRecord> found;
  for (const auto& told : {gpu.compute_processes(), gpu.graphics_processes()}) {
    if (!told.value) continue;
    for (const GpuProcess& process : *told.value)
      found.push_back({.pid = process.pid,
                       .name = file_text(fs::path("/proc") / std::to_string(process.pid) / "comm"),
                       .memory = process.memory});
  }
  return found;
}

GpuRecord described(const Gpu& gpu, unsigned index) {
  GpuRecord record{.index = index};
  Told told(record);
  told.add("model", &GpuRecord::model, gpu.model());
  told.add("uuid", &GpuRecord::uuid, gpu.uuid());
  told.add("bus", &GpuRecord::bus, gpu.bus());
  const NvmlResult<GpuMemory> memory = gpu.memory();
  told.add("memory", &GpuRecord::memory,
           {memory.value ? std::optional(memory.value->total) : std::nullopt, memory.reason});
  told.add("mig", &GpuRecord::mig, gpu.mig());
  told.add("persistence", &GpuRecord::persistence, gpu.persistence());
  told.add("compute_mode", &GpuRecord::compute_mode, gpu.compute_mode());
  told.add("sm_clock_limit_hz", &GpuRecord::sm_clock_limit_hz, gpu.sm_clock_limit());
  told.add("memory_clock_limit_hz", &GpuRecord::memory_clock_limit_hz, gpu.memory_clock_limit());
  told.add("sm_application_clock_hz", &GpuRecord::sm_application_clock_hz, gpu.sm_application_clock());
  told.add("power_limit_watts", &GpuRecord::power_limit_watts, gpu.power_limit());
  record.processes = processes_on(gpu);
  return record;
}

// What the driver's files say.
std::vector<GpuRecord> without_nvml(const fs::path& root) {
  std::vector<GpuRecord> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(root / "proc/driver/nvidia/gpus", error)) {
    const auto text = file_text(entry.path() / "information");
    found.push_back({.model = field_of(text.value_or(""), "Model"), .bus = entry.path().filename().string()});
  }
  return found;
}

}  // namespace

NvmlRecord nvml_info(const NvmlAccess& access) {
  if (!access.nvml)
    return {.driver = std::nullopt, .version = std::nullopt, .cuda = std::nullopt, .reason = access.reason};
  return {.driver = access.nvml->driver().value,
          .version = access.nvml->version().value,
          .cuda = access.nvml->cuda().value};
}

std::vector<GpuRecord> gpu_info(const NvmlAccess& access, const fs::path& root) {
  if (!access.nvml) return without_nvml(root);
  std::vector<GpuRecord> found;
  const unsigned count = access.nvml->count().value.value_or(0);
  for (unsigned i = 0; i < count; ++i) {
    const NvmlResult<Gpu> gpu = access.nvml->gpu(i);
    if (gpu.value)
      found.push_back(described(*gpu.value, i));
    else
      found.push_back({.index = i,
                       .model = std::nullopt,
                       .not_told = std::map<std::string, std::string>{{"model", gpu.reason}}});
  }
  return found;
}

std::vector<UnsteadyCause> unsteady_gpus(const std::vector<GpuRecord>& gpus) {
  std::vector<UnsteadyCause> causes;
  for (const GpuRecord& gpu : gpus) {
    const auto add = [&](const std::string& what, const char* remedy) {
      causes.push_back({fmt::format("GPU {}: {}", gpu.index.value_or(0U), what), remedy});
    };
    if (!gpu.persistence.value_or(true))
      add("persistence mode is off, so the driver may unload between two workers", "nvidia-smi -pm 1");
    if (gpu.mig.value_or(false))
      add("it is divided (MIG): its instances share power and clocks", "nvidia-smi -mig 0");
    if (gpu.processes && !gpu.processes->empty())
      add(fmt::format("processes were on it before the measurement: {}", gpu.processes->size()),
          "stop them: nvidia-smi lists them");
  }
  return causes;
}

}  // namespace assay
