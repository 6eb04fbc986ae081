#include "harness/machine/nvml_library.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <span>

namespace assay {
namespace {

const char* remedy_of(nvml::Return code) {
  switch (code) {
    case nvml::driver_not_loaded:
      return ": load the kernel module (modprobe nvidia), or give the container the GPU";
    case nvml::version_mismatch:
      return ": the library and the kernel module are of different versions; reboot, or reload the module";
    default:
      return "";
  }
}

// Processes may start between two calls.
constexpr unsigned first_processes = 64, max_processes = 1 << 16;

GpuProcess process_at(const std::vector<char>& bytes, std::size_t offset) {
  nvml::ProcessV1 found{};
  std::memcpy(&found, bytes.data() + offset, sizeof found);
  GpuProcess process{static_cast<pid_t>(found.pid), std::nullopt};
  if (found.memory != nvml::not_available) process.memory = static_cast<std::int64_t>(found.memory);
  return process;
}

}  // namespace

// Try version 2 first: its struct never changed. Version 3 wrote larger structs for a while; this shows in
// the bytes after the smaller ones.
NvmlResult<std::vector<GpuProcess>> NvmlLibrary::processes(const char* name_of_it, nvml::Device device,
                                                           ListProcesses v1, ListProcesses v2,
                                                           ListProcesses v3) const {
  constexpr char untouched = '\x5a';
  const ListProcesses list = v2 ? v2 : v3 ? v3 : v1;
  if (!list) return {std::nullopt, ask(name_of_it, list, device, nullptr, nullptr)};
  for (unsigned capacity = first_processes; capacity <= max_processes; capacity *= 4) {
    std::vector<char> bytes(capacity * sizeof(nvml::ProcessV3), untouched);
    unsigned count = capacity;
    const nvml::Return code = list(device, &count, bytes.data());
    if (code == nvml::insufficient_size) continue;
    if (code != nvml::success) return {std::nullopt, failure(name_of_it, code)};
    count = std::min(count, capacity);
    std::size_t stride = list == v1 && !v2 && !v3 ? sizeof(nvml::ProcessV1) : sizeof(nvml::ProcessV2);
    const auto behind = std::span(bytes).subspan(count * stride);
    if (list == v3 && !v2 && std::any_of(behind.begin(), behind.end(), [](char c) { return c != untouched; }))
      stride = sizeof(nvml::ProcessV3);
    std::vector<GpuProcess> found;
    for (unsigned i = 0; i < count; ++i) found.push_back(process_at(bytes, i * stride));
    return {std::move(found), ""};
  }
  return {std::nullopt, fmt::format("{}: more than {} processes", name_of_it, max_processes)};
}

NvmlLibrary::NvmlLibrary(const std::string& file) : name(file) {
  handle = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle)
    throw NvmlError(fmt::format(
        "NVML cannot be loaded ({}): it comes with NVIDIA's driver; set ASSAY_NVML to its path if the "
        "loader does not find it",
        ::dlerror()));
  const auto find = [&](const char* symbol) { return ::dlsym(handle, symbol); };
#define ASSAY_NVML_FIND(function, arguments) \
  functions.function = reinterpret_cast<decltype(functions.function)>(find(#function));
  ASSAY_NVML_FUNCTIONS(ASSAY_NVML_FIND)
#undef ASSAY_NVML_FIND
  functions.nvmlErrorString = reinterpret_cast<decltype(functions.nvmlErrorString)>(find("nvmlErrorString"));
  std::string why;
  if (!functions.nvmlInit_v2)
    why = fmt::format("{} has no nvmlInit_v2: it is not NVML", file);
  else if (const nvml::Return code = functions.nvmlInit_v2(); code != nvml::success)
    why = failure("nvmlInit_v2", code) + remedy_of(code);
  if (why.empty()) return;
  ::dlclose(handle);
  throw NvmlError(why);
}

NvmlLibrary::~NvmlLibrary() {
  if (functions.nvmlShutdown) functions.nvmlShutdown();
  ::dlclose(handle);
}

std::string NvmlLibrary::failure(const char* function, nvml::Return code) const {
  const char* text = functions.nvmlErrorString ? functions.nvmlErrorString(code) : nullptr;
  return fmt::format("{}: {} ({})", function, text ? text : "the call failed", code);
}

}  // namespace assay
