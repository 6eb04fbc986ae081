// Describes the machine of a measurement, the share of it that a container or a user's slice may use, and
// everything that makes its numbers unsteady.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "harness/machine/machine_record.hpp"

namespace assay {

// Reads files below `root` (tests pass their own), except for the topology, which hwloc reads, and the GPUs, which
// NVML reads. Takes some 10 ms.
MachineRecord environment(const std::filesystem::path& root = "/");

// Total bytes of the highest-level caches: operands must be larger to come from memory. 32 MiB if the machine does not
// report it.
std::int64_t last_level_cache(const MachineRecord& machine);
// The first GPU's, by its name; for an unknown GPU, as much as the largest has.
std::int64_t gpu_cache(const MachineRecord& machine);

// The limits of the control group of this process: the tightest of its own and those of the groups around it. Version 1
// if its cpu or memory controller is mounted, even next to version 2. Reads files below `root`.
ControlGroupRecord control_group_limits(const std::filesystem::path& root);

// How often and how long the CPU quotas of the control groups of a process have stopped it, summed over its group, those
// around it and their processors. Nothing if no group counts it. `process`: its number, or "self".
struct QuotaStops {
  std::int64_t count = 0, ns = 0;
};
std::optional<QuotaStops> quota_stops(const std::string& process = "self",
                                      const std::filesystem::path& root = "/");

// Settings that may differ between two starts of the program on one machine, and affect speed.

// What is unusual in the way in which the kernel treats this process, and which its workers inherit: "policy idle, nice
// 19, memory bound to nodes, no huge pages". Empty if nothing is.
std::string unusual_scheduling();

// The id of the running system's boot; it changes with every boot. Empty if the system has none.
std::string boot_id();

// Whether a report may list the setting or environment variable of that name. Not if it may hold a secret:
// Terraform's (TF_VAR_*, TF_TOKEN_*, ...), and names that end with _KEY, _TOKEN, _SECRET, _PASSWORD or
// _CREDENTIALS.
bool may_be_listed(std::string_view name);

// Whether the environment variable of that name affects how fast a framework or a library computes: the settings of
// OpenMP runtimes, of math libraries, of GPUs and their libraries, of frameworks and their compilers, of the exchange
// between ranks, of allocators, of the dynamic linker and of Python. Only one that may be listed.
bool affects_speed(std::string_view variable);

}  // namespace assay
