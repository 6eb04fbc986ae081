// The processor and the GPUs of a machine, as parts of environment().
#pragma once

#include <filesystem>
#include <map>

#include <nlohmann/json_fwd.hpp>

#include "harness/machine/nvml.hpp"

namespace assay {

// The processor: its model and clocks, its cores, caches and memory nodes.

// The object "cpu" of environment().
nlohmann::json cpu_info(const std::filesystem::path& root);

// {"logical", "cores", "sockets", "numa_nodes", "threads_per_core", "caches": [{"level", "type", "bytes",
// "line_bytes", "shared_by", "count"}]}: the whole machine, also what this process may not use. shared_by:
// hardware threads that one such cache serves. threads_per_core is null where cores differ in it. Everything
// is null where hwloc finds nothing. hwloc reads a machine of another kind from $HWLOC_XMLFILE or
// $HWLOC_SYNTHETIC. Some milliseconds.
nlohmann::json topology_info();

// The core of each logical CPU, numbered by hwloc; empty where hwloc finds none.
std::map<int, int> cores_of_cpus();

// The GPUs.

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
