#include "harness/machine/nvml.hpp"

#include <cstdlib>
#include <map>

#include "harness/core/paths.hpp"
#include "harness/machine/nvml_library.hpp"

// A function's name and its address.
#define ASSAY_NVML(function) #function, library_->functions.function

namespace assay {

Nvml::Nvml(const std::string& library) : library_(std::make_unique<NvmlLibrary>(library)) {}
Nvml::~Nvml() = default;

Told<std::string> Nvml::driver() const { return library_->text(ASSAY_NVML(nvmlSystemGetDriverVersion)); }
Told<std::string> Nvml::version() const { return library_->text(ASSAY_NVML(nvmlSystemGetNVMLVersion)); }
Told<std::string> Nvml::cuda() const {
  int version = 0;  // 13000: 13.0
  if (std::string why = library_->ask(ASSAY_NVML(nvmlSystemGetCudaDriverVersion), &version); !why.empty())
    return {std::nullopt, std::move(why)};
  return {fmt::format("{}.{}", version / 1000, version % 1000 / 10), ""};
}

Told<unsigned> Nvml::count() const {
  unsigned count = 0;
  if (std::string why = library_->ask(ASSAY_NVML(nvmlDeviceGetCount_v2), &count); !why.empty())
    return {std::nullopt, std::move(why)};
  return {count, ""};
}

Told<Gpu> Nvml::gpu(unsigned index) const {
  nvml::Device device = nullptr;
  if (std::string why = library_->ask(ASSAY_NVML(nvmlDeviceGetHandleByIndex_v2), index, &device);
      !why.empty())
    return {std::nullopt, std::move(why)};
  return {Gpu(*library_, device), ""};
}

Told<Gpu> Nvml::gpu_by_uuid(const std::string& uuid) const {
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

}  // namespace assay
