// The GPUs of a machine, for the environment of a report.
#pragma once

#include <filesystem>

#include <nlohmann/json_fwd.hpp>

#include "harness/machine/nvml.hpp"

namespace assay {

// {"driver", "version", "cuda", "reason"}: null but for the reason where NVML cannot be used, and without a
// reason where it can.
nlohmann::json nvml_info(const NvmlAccess& access);

// A list of {"index", "model", "uuid", "bus", "memory", "mig", "persistence", "compute_mode",
// "sm_clock_limit_hz", "memory_clock_limit_hz", "sm_application_clock_hz", "power_limit_watts", "processes":
// [{"pid", "name", "memory"}], "not_told": {field: why it is null}} by NVML, in its order; where it cannot be
// used, of {"model", "bus"} by the driver's files below `root`.
nlohmann::json gpu_info(const NvmlAccess& access, const std::filesystem::path& root);

// What of such a list makes numbers unsteady: [{"what", "remedy"}].
nlohmann::json unsteady_gpus(const nlohmann::json& gpus);

}  // namespace assay
