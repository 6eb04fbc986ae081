// NVML's shared object and its functions; each call returns the reason if it fails.
#pragma once

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "harness/machine/nvml.hpp"
#include "harness/machine/nvml_api.hpp"

namespace assay {

struct NvmlLibrary {
  void* handle = nullptr;
  std::string name;
  nvml::Functions functions;

  explicit NvmlLibrary(const std::string& file);  // throws NvmlError
  ~NvmlLibrary();
  NvmlLibrary(const NvmlLibrary&) = delete;
  NvmlLibrary& operator=(const NvmlLibrary&) = delete;

  // "nvmlDeviceGetPowerUsage: Not Supported (3)"
  std::string failure(const char* function, nvml::Return code) const;

  // Why the call failed; empty if it succeeded.
  template <typename F, typename... A>
  std::string ask(const char* name_of_it, F function, A... arguments) const {
    if (!function) return fmt::format("{} has no {}: its driver is too old or too new", name, name_of_it);
    const nvml::Return code = function(arguments...);
    return code == nvml::success ? "" : failure(name_of_it, code);
  }

  template <typename T, typename F, typename... A>
  NvmlResult<T> number(const char* name_of_it, F function, nvml::Device device, A... arguments) const {
    T value{};
    if (std::string why = ask(name_of_it, function, device, arguments..., &value); !why.empty())
      return {std::nullopt, std::move(why)};
    return {value, ""};
  }

  template <typename F, typename... A>
  NvmlResult<std::string> text(const char* name_of_it, F function, A... arguments) const {
    char value[nvml::text_bytes] = {};
    if (std::string why = ask(name_of_it, function, arguments..., value, nvml::text_bytes); !why.empty())
      return {std::nullopt, std::move(why)};
    return {std::string(value, ::strnlen(value, sizeof value)), ""};
  }

  // The three versions of a function that lists processes; versions that the library lacks are null.
  using ListProcesses = nvml::Return (*)(nvml::Device, unsigned*, void*);
  NvmlResult<std::vector<GpuProcess>> processes(const char* name_of_it, nvml::Device device, ListProcesses v1,
                                                ListProcesses v2, ListProcesses v3) const;
};

}  // namespace assay
