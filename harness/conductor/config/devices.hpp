// The device of a row that names none, or that leaves the choice to the machine.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "harness/conductor/backends/backends.hpp"

namespace assay {

// For --device: a GPU if one of the backends is set up for it, else the CPU. No device has this name.
inline constexpr std::string_view machines_device = "auto";

// Whether the config leaves the choice of the device to this program. `device`: the values of the option; empty if
// it is not given. Throws ConfigError, led by `where`, for "auto" and another device.
bool chooses_device(const std::vector<std::string>& device, std::string_view where);

// With "auto" (`by_machine`): cuda if a backend is set up for it, else cpu. Without: a device that all backends
// have, cpu before others, and cpu if they share none.
DeviceKind chosen_device(const std::vector<const BackendDescription*>& backends, bool by_machine);

// The device on which a backend that the config names has its cells: `chosen` if it has that one, else its first.
DeviceKind device_of(const BackendDescription& backend, DeviceKind chosen);

}  // namespace assay
