// The processor: its model and clocks, its cores, caches and memory nodes.
#pragma once

#include <filesystem>
#include <map>

#include <nlohmann/json_fwd.hpp>

namespace assay {

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

}  // namespace assay
