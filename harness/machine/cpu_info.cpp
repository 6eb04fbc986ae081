#include "harness/machine/cpu_info.hpp"

#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>

#include <nlohmann/json.hpp>

#include "harness/core/or_null.hpp"
#include "harness/machine/system_files.hpp"
#include "harness/machine/topology.hpp"

namespace assay {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

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
  const auto maximum = file_integer(cpus / "cpu0/cpufreq/cpuinfo_max_freq");
  auto flags = field_of(described, "flags");
  if (!flags) flags = field_of(described, "Features");
  utsname system{};
  uname(&system);
  Json out = topology_info();
  out.update({{"model", or_null(field_of(described, "model name"))},
              {"vendor", or_null(field_of(described, "vendor_id"))},
              {"microcode", or_null(field_of(described, "microcode"))},
              {"architecture", system.machine},
              {"allowed", allowed()},
              {"instruction_sets", instruction_sets(flags.value_or(""))},
              {"smt", or_null(file_text(cpus / "smt/control"))},
              {"governor", or_null(file_text(cpus / "cpu0/cpufreq/scaling_governor"))},
              {"driver", or_null(file_text(cpus / "cpu0/cpufreq/scaling_driver"))},
              {"maximum_hz", maximum ? Json(*maximum * 1000) : Json(nullptr)},
              {"boost", boost(cpus)}});
  return out;
}

}  // namespace assay
