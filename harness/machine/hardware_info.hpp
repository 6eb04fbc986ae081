// The processor and the GPUs of a machine, as parts of environment().
#pragma once

#include <filesystem>
#include <map>
#include <vector>

#include "harness/machine/machine_record.hpp"
#include "harness/machine/nvml.hpp"

namespace assay {

// The processor: its model and clocks, its cores, caches and memory nodes.

ProcessorRecord cpu_info(const std::filesystem::path& root);

// Fills what hwloc knows of the whole machine, including parts that this process may not use: hardware threads, cores,
// sockets, memory nodes and caches. They are null if hwloc fails. $HWLOC_XMLFILE or $HWLOC_SYNTHETIC make hwloc describe
// another machine. Takes some milliseconds.
void add_topology(ProcessorRecord& cpu);

// The core of each logical CPU, numbered by hwloc; empty if hwloc fails.
std::map<int, int> cores_of_cpus();

// The GPUs.

// If NVML cannot be used, everything except the reason is null; otherwise the reason is absent.
NvmlRecord nvml_info(const NvmlAccess& access);

// The GPUs from NVML, in its order; if it cannot be used, their model and bus from the driver's files below `root`.
std::vector<GpuRecord> gpu_info(const NvmlAccess& access, const std::filesystem::path& root);

// The properties of these GPUs that make numbers unsteady.
std::vector<UnsteadyCause> unsteady_gpus(const std::vector<GpuRecord>& gpus);

}  // namespace assay
