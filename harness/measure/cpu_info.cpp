#include "harness/measure/cpu_info.hpp"

#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include <nlohmann/json.hpp>

#include "harness/measure/system_files.hpp"

namespace assay {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

template <typename T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

// Those on which the speed of a network depends, as the kernel names them.
Json instruction_sets(const std::string& flags) {
  static const std::set<std::string> telling{
      "sse4_2",   "avx",         "avx2",        "fma",         "f16c",     "avx512f",  "avx512bw", "avx512dq",
      "avx512vl", "avx512_vnni", "avx512_bf16", "avx512_fp16", "avx_vnni", "amx_tile", "amx_int8", "amx_bf16",
      "asimd",    "asimdhp",     "sve",         "sve2",        "bf16",     "i8mm"};
  Json found = Json::array();
  std::size_t at = 0;
  while (at < flags.size()) {
    const std::size_t end = std::min(flags.find(' ', at), flags.size());
    if (telling.contains(flags.substr(at, end - at))) found.push_back(flags.substr(at, end - at));
    at = end + 1;
  }
  return found;
}

Json topology(const fs::path& cpus, const std::set<int>& online) {
  std::set<std::pair<std::int64_t, std::int64_t>> cores;
  std::set<std::int64_t> sockets;
  for (const int cpu : online) {
    const fs::path folder = cpus / ("cpu" + std::to_string(cpu)) / "topology";
    const auto socket = file_integer(folder / "physical_package_id"), core = file_integer(folder / "core_id");
    if (!socket || !core) return {{"cores", nullptr}, {"sockets", nullptr}};
    cores.emplace(*socket, *core);
    sockets.insert(*socket);
  }
  return {{"cores", cores.size()}, {"sockets", sockets.size()}};
}

// Each cache once, however many processors share it.
Json caches(const fs::path& cpus, const std::set<int>& online) {
  std::map<std::tuple<std::int64_t, std::string, std::int64_t>, std::set<std::string>> found;
  for (const int cpu : online) {
    const fs::path folder = cpus / ("cpu" + std::to_string(cpu)) / "cache";
    for (int index = 0; index < 8; ++index) {
      const fs::path one = folder / ("index" + std::to_string(index));
      const auto level = file_integer(one / "level");
      const auto size = size_of(file_text(one / "size").value_or(""));
      if (!level || !size) break;
      found[{*level, file_text(one / "type").value_or(""), *size}].insert(
          file_text(one / "shared_cpu_list").value_or(std::to_string(cpu)));
    }
  }
  Json out = Json::array();
  for (const auto& [key, shared] : found)
    out.push_back({{"level", std::get<0>(key)},
                   {"type", std::get<1>(key)},
                   {"bytes", std::get<2>(key)},
                   {"count", shared.size()}});
  return out;
}

Json allowed() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? Json(CPU_COUNT(&set)) : Json(nullptr);
}

Json boost(const fs::path& cpus) {
  if (const auto on = file_integer(cpus / "cpufreq/boost")) return *on != 0;
  if (const auto off = file_integer(cpus / "intel_pstate/no_turbo")) return *off == 0;
  return nullptr;
}

}  // namespace

Json cpu_info(const fs::path& root) {
  const fs::path cpus = root / "sys/devices/system/cpu";
  const std::string described = file_text(root / "proc/cpuinfo").value_or("");
  const std::set<int> online = cpu_list(file_text(cpus / "online").value_or(""));
  const auto nodes = cpu_list(file_text(root / "sys/devices/system/node/online").value_or(""));
  const auto maximum = file_integer(cpus / "cpu0/cpufreq/cpuinfo_max_freq");
  auto flags = field_of(described, "flags");
  if (!flags) flags = field_of(described, "Features");
  utsname system{};
  uname(&system);
  Json out = topology(cpus, online);
  out.update({{"model", or_null(field_of(described, "model name"))},
              {"vendor", or_null(field_of(described, "vendor_id"))},
              {"microcode", or_null(field_of(described, "microcode"))},
              {"architecture", system.machine},
              {"logical", online.empty() ? Json(nullptr) : Json(online.size())},
              {"allowed", allowed()},
              {"numa_nodes", nodes.empty() ? Json(nullptr) : Json(nodes.size())},
              {"instruction_sets", instruction_sets(flags.value_or(""))},
              {"caches", caches(cpus, online)},
              {"governor", or_null(file_text(cpus / "cpu0/cpufreq/scaling_governor"))},
              {"driver", or_null(file_text(cpus / "cpu0/cpufreq/scaling_driver"))},
              {"maximum_hz", maximum ? Json(*maximum * 1000) : Json(nullptr)},
              {"boost", boost(cpus)}});
  const bool known = out["cores"].is_number() && out["cores"] > 0 && !online.empty();
  out["threads_per_core"] = known ? Json(online.size() / out["cores"].get<std::size_t>()) : Json(nullptr);
  return out;
}

}  // namespace assay
