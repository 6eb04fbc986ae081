#include "harness/conductor/config/devices.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/core/error.hpp"
#include "harness/core/text.hpp"

namespace assay {
namespace {

// A backend that a config awaits may have any device.
bool has(const BackendDescription& backend, DeviceKind device) {
  return backend.devices.empty() || contains(backend.devices, device);
}

bool is_set_up_for(const BackendDescription& backend, DeviceKind device) {
  return backend.available() && contains(backend.devices, device) && !backend.unavailable_on.contains(device);
}

}  // namespace

bool chooses_device(const std::vector<std::string>& device, std::string_view where) {
  if (device.empty()) return true;
  if (!contains(device, machines_device)) return false;
  if (device.size() > 1)
    throw ConfigError(fmt::format("{}: [device] got {}: auto cannot be combined with other devices", where,
                                  fmt::join(device, ", ")));
  return true;
}

DeviceKind chosen_device(const std::vector<const BackendDescription*>& backends, bool by_machine) {
  if (by_machine) {
    const bool gpu = std::ranges::any_of(
        backends, [](const BackendDescription* each) { return is_set_up_for(*each, DeviceKind::cuda); });
    return gpu ? DeviceKind::cuda : DeviceKind::cpu;
  }
  for (const auto& [device, word] : words<DeviceKind>) {
    if (std::ranges::all_of(backends, [&](const BackendDescription* each) { return has(*each, device); }))
      return device;
  }
  return DeviceKind::cpu;
}

DeviceKind device_of(const BackendDescription& backend, DeviceKind chosen) {
  return has(backend, chosen) ? chosen : backend.devices.front();
}

}  // namespace assay
