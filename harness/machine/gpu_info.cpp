#include "harness/machine/hardware_info.hpp"

#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/core/json/encode.hpp"
#include "harness/machine/system_files.hpp"

namespace assay {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

class Described {
 public:
  template <typename T>
  void add(const char* field, const NvmlResult<T>& told) {
    out_[field] = encode(told.value);
    if (!told.value) out_["not_told"][field] = told.reason;
  }
  void add(const char* field, Json value) { out_[field] = std::move(value); }
  Json take() { return std::move(out_); }

 private:
  Json out_{{"not_told", Json::object()}};
};

Json processes_on(const Gpu& gpu) {
  Json found = Json::array();
  for (const auto& told : {gpu.compute_processes(), gpu.graphics_processes()}) {
    if (!told.value) continue;
    for (const GpuProcess& process : *told.value) {
      const fs::path folder = fs::path("/proc") / std::to_string(process.pid);
      found.push_back({{"pid", process.pid},
                       {"name", encode(file_text(folder / "comm"))},
                       {"memory", encode(process.memory)}});
    }
  }
  return found;
}

Json described(const Gpu& gpu, unsigned index) {
  Described out;
  out.add("index", Json(index));
  out.add("model", gpu.model());
  out.add("uuid", gpu.uuid());
  out.add("bus", gpu.bus());
  const NvmlResult<GpuMemory> memory = gpu.memory();
  out.add("memory", NvmlResult<std::int64_t>{memory.value ? std::optional(memory.value->total) : std::nullopt,
                                             memory.reason});
  out.add("mig", gpu.mig());
  out.add("persistence", gpu.persistence());
  out.add("compute_mode", gpu.compute_mode());
  out.add("sm_clock_limit_hz", gpu.sm_clock_limit());
  out.add("memory_clock_limit_hz", gpu.memory_clock_limit());
  out.add("sm_application_clock_hz", gpu.sm_application_clock());
  out.add("power_limit_watts", gpu.power_limit());
  out.add("processes", processes_on(gpu));
  return out.take();
}

}  // namespace

Json nvml_info(const NvmlAccess& access) {
  if (!access.nvml)
    return {{"driver", nullptr}, {"version", nullptr}, {"cuda", nullptr}, {"reason", access.reason}};
  return {{"driver", encode(access.nvml->driver().value)},
          {"version", encode(access.nvml->version().value)},
          {"cuda", encode(access.nvml->cuda().value)}};
}

Json gpu_info(const NvmlAccess& access, const fs::path& root) {
  Json found = Json::array();
  if (!access.nvml) {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(root / "proc/driver/nvidia/gpus", error)) {
      const auto text = file_text(entry.path() / "information");
      found.push_back({{"model", encode(field_of(text.value_or(""), "Model"))},
                       {"bus", entry.path().filename().string()}});
    }
    return found;
  }
  const unsigned count = access.nvml->count().value.value_or(0);
  for (unsigned i = 0; i < count; ++i) {
    const NvmlResult<Gpu> gpu = access.nvml->gpu(i);
    found.push_back(gpu.value
                        ? described(*gpu.value, i)
                        : Json{{"index", i}, {"model", nullptr}, {"not_told", {{"model", gpu.reason}}}});
  }
  return found;
}

Json unsteady_gpus(const Json& gpus) {
  Json causes = Json::array();
  const auto add = [&](const Json& gpu, const std::string& what, const char* remedy) {
    causes.push_back({{"what", fmt::format("GPU {}: {}", gpu["index"].dump(), what)}, {"remedy", remedy}});
  };
  for (const Json& gpu : gpus) {
    if (gpu.value("persistence", Json()) == false)
      add(gpu, "persistence mode is off, so the driver may unload between two workers", "nvidia-smi -pm 1");
    if (gpu.value("mig", Json()) == true)
      add(gpu, "it is divided (MIG): its instances share power and clocks", "nvidia-smi -mig 0");
    if (const Json processes = gpu.value("processes", Json()); processes.is_array() && !processes.empty())
      add(gpu, fmt::format("processes were on it before the measurement: {}", processes.size()),
          "stop them: nvidia-smi lists them");
  }
  return causes;
}

}  // namespace assay
