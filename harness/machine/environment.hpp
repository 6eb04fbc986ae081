// Describes the machine of a measurement, the share of it that a container or a user's slice may use, and
// everything that makes its numbers unsteady.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace assay {

// Strict JSON: {"host", "kernel", "os", "cpu": {"model", "vendor", "family", "model_number", "stepping",
// "architecture", "logical", "allowed", "cores", "sockets", "numa_nodes", "threads_per_core", "instruction_sets",
// "caches" (hardware_info.hpp), "loop_seconds" (core_probe.hpp), "smt", "governor", "driver", "boost",
// "maximum_hz", "microcode"}, "memory": {"total", "available", "swap_total", "huge_pages", "huge_pages_defrag"},
// "virtualised", "control_group": {"version", "cpu_quota", "memory_limit"}, "address_randomisation",
// "scheduling" (unusual_scheduling(), or "usual"), "load_average", "clock": {"source", "name", "resolution_ns",
// "cost_ns"}, "nvml", "gpus" (hardware_info.hpp),
// "unsteady": [{"what", "remedy"}]}. A value that the machine does not report is null. Units: bytes, Hz, ns, s.
// Reads files below `root` (tests pass their own), except for the topology, which hwloc reads, and the GPUs, which
// NVML reads. Takes some 10 ms.
nlohmann::json environment(const std::filesystem::path& root = "/");

// Total bytes of the highest-level caches in `environment`: operands must be larger to come from memory. 32
// MiB if the machine does not report it.
std::int64_t last_level_cache(const nlohmann::json& environment);
// The first GPU's, by its name; for an unknown GPU, as much as the largest has.
std::int64_t gpu_cache(const nlohmann::json& environment);

// {"version": 1 | 2 | null, "cpu_quota": cores | null, "memory_limit": bytes | null} of the control group of
// this process: the tightest of its own limits and those of the groups around it. null: no limit, or
// it is not reported. Version 1 if its cpu or memory controller is mounted, even next to version 2. Reads
// files below `root`.
nlohmann::json control_group_limits(const std::filesystem::path& root);

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
