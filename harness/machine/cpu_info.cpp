#include "harness/machine/hardware_info.hpp"

#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include <hwloc.h>

#include "harness/machine/core_probe.hpp"
#include "harness/machine/system_files.hpp"

namespace assay {
namespace {

namespace fs = std::filesystem;

// The instruction sets that affect the speed of a network, as the kernel names them.
std::vector<std::string> instruction_sets(const std::string& flags) {
  static const std::set<std::string> telling{
      "sse4_2",   "avx",         "avx2",        "fma",         "f16c",     "avx512f",  "avx512bw", "avx512dq",
      "avx512vl", "avx512_vnni", "avx512_bf16", "avx512_fp16", "avx_vnni", "amx_tile", "amx_int8", "amx_bf16",
      "asimd",    "asimdhp",     "sve",         "sve2",        "bf16",     "i8mm"};
  std::vector<std::string> found;
  std::size_t at = 0;
  while (at < flags.size()) {
    const std::size_t end = std::min(flags.find(' ', at), flags.size());
    if (telling.contains(flags.substr(at, end - at))) found.push_back(flags.substr(at, end - at));
    at = end + 1;
  }
  return found;
}

std::optional<int> allowed() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? std::optional(CPU_COUNT(&set)) : std::nullopt;
}

std::optional<bool> boost(const fs::path& cpus) {
  if (const auto on = file_integer(cpus / "cpufreq/boost")) return *on != 0;
  if (const auto off = file_integer(cpus / "intel_pstate/no_turbo")) return *off == 0;
  return std::nullopt;
}

std::optional<std::int64_t> maximum_hz(const fs::path& cpus) {
  const auto kilohertz = file_integer(cpus / "cpu0/cpufreq/cpuinfo_max_freq");
  return kilohertz ? std::optional(*kilohertz * 1000) : std::nullopt;
}

}  // namespace

ProcessorRecord cpu_info(const fs::path& root) {
  const fs::path cpus = root / "sys/devices/system/cpu";
  const std::string described = file_text(root / "proc/cpuinfo").value_or("");
  utsname system{};
  uname(&system);
  // On Arm the kernel names an implementer and its part instead of a vendor and a family.
  const auto either = [&](const char* name, const char* on_arm) {
    const auto found = field_of(described, name);
    return found ? found : field_of(described, on_arm);
  };
  ProcessorRecord cpu{.model = field_of(described, "model name"),
                      .vendor = either("vendor_id", "CPU implementer"),
                      .family = either("cpu family", "CPU architecture"),
                      .model_number = either("model", "CPU part"),
                      .stepping = either("stepping", "CPU revision"),
                      .microcode = field_of(described, "microcode"),
                      .architecture = system.machine,
                      .allowed = allowed(),
                      .instruction_sets = instruction_sets(either("flags", "Features").value_or("")),
                      .loop_seconds = loop_seconds(),
                      .smt = file_text(cpus / "smt/control"),
                      .governor = file_text(cpus / "cpu0/cpufreq/scaling_governor"),
                      .driver = file_text(cpus / "cpu0/cpufreq/scaling_driver"),
                      .boost = boost(cpus),
                      .maximum_hz = maximum_hz(cpus)};
  add_topology(cpu);
  return cpu;
}

namespace {

struct Destroy {
  void operator()(hwloc_topology* topology) const { hwloc_topology_destroy(topology); }
};
using Topology = std::unique_ptr<hwloc_topology, Destroy>;

Topology load() {
  hwloc_topology_t made = nullptr;
  if (hwloc_topology_init(&made) != 0) return nullptr;
  Topology topology(made);
  hwloc_topology_set_flags(made, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
  return hwloc_topology_load(made) == 0 ? std::move(topology) : nullptr;
}

std::optional<int> count(const Topology& topology, hwloc_obj_type_t type) {
  const int number = hwloc_get_nbobjs_by_type(topology.get(), type);
  return number > 0 ? std::optional(number) : std::nullopt;
}

template <typename Use>
void for_each(const Topology& topology, hwloc_obj_type_t type, Use use) {
  for (hwloc_obj_t object = nullptr; (object = hwloc_get_next_obj_by_type(topology.get(), type, object));)
    use(object);
}

std::optional<int> threads_per_core(const Topology& topology) {
  std::set<int> each;
  for_each(topology, HWLOC_OBJ_CORE,
           [&](hwloc_obj_t core) { each.insert(hwloc_bitmap_weight(core->cpuset)); });
  return each.size() == 1 ? std::optional(*each.begin()) : std::nullopt;
}

// Identical caches are listed once, with their number.
std::vector<CacheRecord> caches(const Topology& topology) {
  using Kind = std::tuple<unsigned, std::string, hwloc_uint64_t, unsigned, int>;
  std::map<Kind, int> found;
  for (const hwloc_obj_type_t type :
       {HWLOC_OBJ_L1CACHE, HWLOC_OBJ_L1ICACHE, HWLOC_OBJ_L2CACHE, HWLOC_OBJ_L2ICACHE, HWLOC_OBJ_L3CACHE,
        HWLOC_OBJ_L3ICACHE, HWLOC_OBJ_L4CACHE, HWLOC_OBJ_L5CACHE}) {
    for_each(topology, type, [&](hwloc_obj_t object) {
      const auto& cache = object->attr->cache;
      const char* kind = cache.type == HWLOC_OBJ_CACHE_DATA          ? "Data"
                         : cache.type == HWLOC_OBJ_CACHE_INSTRUCTION ? "Instruction"
                                                                     : "Unified";
      ++found[{cache.depth, kind, cache.size, cache.linesize, hwloc_bitmap_weight(object->cpuset)}];
    });
  }
  std::vector<CacheRecord> out;
  for (const auto& [kind, number] : found) {
    const auto& [level, type, bytes, line, shared] = kind;
    out.push_back({.level = static_cast<int>(level),
                   .type = type,
                   .bytes = static_cast<std::int64_t>(bytes),
                   .line_bytes = line > 0 ? std::optional<std::int64_t>(line) : std::nullopt,
                   .shared_by = shared,
                   .count = number});
  }
  return out;
}

}  // namespace

void add_topology(ProcessorRecord& cpu) {
  const Topology topology = load();
  const auto number = [&](hwloc_obj_type_t type) { return topology ? count(topology, type) : std::nullopt; };
  cpu.logical = number(HWLOC_OBJ_PU);
  cpu.cores = number(HWLOC_OBJ_CORE);
  cpu.sockets = number(HWLOC_OBJ_PACKAGE);
  cpu.numa_nodes = number(HWLOC_OBJ_NUMANODE);
  cpu.threads_per_core = topology ? threads_per_core(topology) : std::nullopt;
  cpu.caches = topology ? std::optional(caches(topology)) : std::nullopt;
}

std::map<int, int> cores_of_cpus() {
  std::map<int, int> cores;
  const Topology topology = load();
  if (!topology) return cores;
  for_each(topology, HWLOC_OBJ_PU, [&](hwloc_obj_t cpu) {
    const hwloc_obj_t core = hwloc_get_ancestor_obj_by_type(topology.get(), HWLOC_OBJ_CORE, cpu);
    cores[static_cast<int>(cpu->os_index)] = static_cast<int>((core ? core : cpu)->logical_index);
  });
  return cores;
}

}  // namespace assay
