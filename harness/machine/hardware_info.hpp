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
// "line_bytes", "shared_by", "count"}]} of the whole machine, including parts that this process may not use.
// shared_by: hardware threads that share one such cache. threads_per_core is null if cores differ. Everything
// is null if hwloc fails. $HWLOC_XMLFILE or $HWLOC_SYNTHETIC make hwloc describe another machine. Takes some
// milliseconds.
nlohmann::json topology_info();

// The core of each logical CPU, numbered by hwloc; empty if hwloc fails.
std::map<int, int> cores_of_cpus();

// The GPUs.

// {"driver", "version", "cuda", "reason"}: if NVML cannot be used, everything except the reason is null;
// otherwise the reason is absent.
nlohmann::json nvml_info(const NvmlAccess& access);

// The list of GPUs from NVML, in its order: {"index", "model", "uuid", "bus", "memory", "mig", "persistence",
// "compute_mode", "sm_clock_limit_hz", "memory_clock_limit_hz", "sm_application_clock_hz",
// "power_limit_watts", "processes": [{"pid", "name", "memory"}], "not_told": {field: why it is null}}. If
// NVML cannot be used: {"model", "bus"} from the driver's files below `root`.
nlohmann::json gpu_info(const NvmlAccess& access, const std::filesystem::path& root);

// The properties in such a list that make numbers unsteady: [{"what", "remedy"}].
nlohmann::json unsteady_gpus(const nlohmann::json& gpus);

}  // namespace assay
