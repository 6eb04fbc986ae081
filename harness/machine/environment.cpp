#include "harness/machine/environment.hpp"

#include <sys/personality.h>
#include <sys/utsname.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/core/clock.hpp"
#include "harness/core/json/encode.hpp"
#include "harness/machine/hardware_info.hpp"
#include "harness/machine/nvml.hpp"
#include "harness/machine/system_files.hpp"

namespace assay {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

// Version 1 expresses "no limit" as the largest number of whole pages.
constexpr std::int64_t unlimited_v1 = std::int64_t{1} << 62;

template <typename T>
void tighten(std::optional<T>& limit, std::optional<T> other) {
  if (other && (!limit || *other < *limit)) limit = other;
}

// The group of this process under a controller: the line "4:cpu,cpuacct:/path" of /proc/self/cgroup, or
// "0::/path" for version 2, whose controller has no name.
std::optional<std::string> group(const std::string& lines, const std::string& controller) {
  std::istringstream in(lines);
  for (std::string line; std::getline(in, line);) {
    const auto first = line.find(':');
    const auto second = first == line.npos ? line.npos : line.find(':', first + 1);
    if (second == line.npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    if (controllers == "," + controller + "," || controllers.find("," + controller + ",") != controllers.npos)
      return line.substr(second + 1);
  }
  return std::nullopt;
}

// A group and its ancestors. In a container the path may be the host's, which does not exist here, or one above the
// root of the namespace ("/../.."): then the mount's top is the container's own group.
template <typename Use>
void upwards(const fs::path& mount, const std::string& path, Use use) {
  fs::path below = fs::path(path).relative_path();
  if (std::ranges::find(below, fs::path("..")) != below.end()) below.clear();
  while (!below.empty()) {
    use(mount / below);
    below = below.parent_path();
  }
  use(mount);
}

// Where version 2 is mounted: at the top, or next to the controllers of version 1, which may have some of its own. Empty
// if it is not.
fs::path mount_of_v2(const fs::path& mount) {
  std::error_code ignored;
  if (fs::exists(mount / "cgroup.controllers", ignored) || fs::exists(mount / "cpu.max", ignored))
    return mount;
  return fs::exists(mount / "unified/cgroup.controllers", ignored) ? mount / "unified" : fs::path();
}

std::optional<double> quota_v2(const fs::path& folder) {
  double quota = 0, period = 0;  // "150000 100000", or "max 100000"
  const auto text = file_text(folder / "cpu.max");
  if (!text || std::sscanf(text->c_str(), "%lf %lf", &quota, &period) != 2 || period <= 0)
    return std::nullopt;
  return quota / period;
}

std::optional<double> quota_v1(const fs::path& folder) {
  const auto quota = file_integer(folder / "cpu.cfs_quota_us"),
             period = file_integer(folder / "cpu.cfs_period_us");
  if (!quota || !period || *quota <= 0 || *period <= 0) return std::nullopt;
  return static_cast<double>(*quota) / static_cast<double>(*period);
}

// The number after a name in a file with such lines.
std::optional<std::int64_t> counter_in(const std::string& lines, std::string_view name) {
  std::istringstream in(lines);
  std::string word;
  for (std::int64_t value = 0; in >> word >> value;)
    if (word == name) return value;
  return std::nullopt;
}

void add_stops(std::optional<QuotaStops>& all, const fs::path& folder) {
  const std::string counted = file_text(folder / "cpu.stat").value_or("");
  const auto count = counter_in(counted, "nr_throttled");
  if (!count) return;
  if (!all) all.emplace();
  all->count += *count;
  // Version 1 has nanoseconds, version 2 microseconds.
  all->ns += counter_in(counted, "throttled_time").value_or(0);
  all->ns += 1000 * counter_in(counted, "throttled_usec").value_or(0);
}

std::optional<std::int64_t> memory_v1(const fs::path& folder) {
  const auto limit = file_integer(folder / "memory.limit_in_bytes");
  return limit && *limit < unlimited_v1 ? limit : std::nullopt;
}

}  // namespace

Json control_group_limits(const fs::path& root) {
  const fs::path mount = root / "sys/fs/cgroup";
  const std::string groups = file_text(root / "proc/self/cgroup").value_or("");
  std::error_code ignored;
  const fs::path mount_v2 = mount_of_v2(mount);
  const bool v1 = fs::exists(mount / "cpu", ignored) || fs::exists(mount / "memory", ignored);
  std::optional<double> quota;
  std::optional<std::int64_t> memory;
  if (!mount_v2.empty()) {
    upwards(mount_v2, group(groups, "").value_or("/"), [&](const fs::path& folder) {
      tighten(quota, quota_v2(folder));
      tighten(memory, file_integer(folder / "memory.max"));
    });
  }
  if (v1) {
    upwards(mount / "cpu", group(groups, "cpu").value_or("/"),
            [&](const fs::path& folder) { tighten(quota, quota_v1(folder)); });
    upwards(mount / "memory", group(groups, "memory").value_or("/"),
            [&](const fs::path& folder) { tighten(memory, memory_v1(folder)); });
  }
  return {{"version", v1                 ? Json(1)
                      : mount_v2.empty() ? Json(nullptr)
                                         : Json(2)},
          {"cpu_quota", encode(quota)},
          {"memory_limit", encode(memory)}};
}

std::optional<QuotaStops> quota_stops(const std::string& process, const fs::path& root) {
  const fs::path mount = root / "sys/fs/cgroup";
  const std::string groups = file_text(root / "proc" / process / "cgroup").value_or("");
  std::optional<QuotaStops> all;
  const auto add = [&](const fs::path& folder) { add_stops(all, folder); };
  if (std::error_code ignored; fs::exists(mount / "cpu", ignored))
    upwards(mount / "cpu", group(groups, "cpu").value_or("/"), add);
  else if (const fs::path mount_v2 = mount_of_v2(mount); !mount_v2.empty())
    upwards(mount_v2, group(groups, "").value_or("/"), add);
  return all;
}

namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

Json memory(const fs::path& root) {
  const std::string described = file_text(root / "proc/meminfo").value_or("");
  const auto bytes = [&](const char* key) {
    const auto text = field_of(described, key);
    const auto kibibytes = text ? size_of(*text) : std::nullopt;
    return kibibytes ? Json(*kibibytes << 10) : Json(nullptr);
  };
  const auto chosen = [&](const char* file) {  // "always [madvise] never"
    const auto text = file_text(root / "sys/kernel/mm/transparent_hugepage" / file);
    if (!text) return Json(nullptr);
    const auto open = text->find('['), close = text->find(']');
    return open != text->npos && close != text->npos ? Json(text->substr(open + 1, close - open - 1))
                                                     : Json(nullptr);
  };
  return {{"total", bytes("MemTotal")},
          {"available", bytes("MemAvailable")},
          {"swap_total", bytes("SwapTotal")},
          {"huge_pages", chosen("enabled")},
          {"huge_pages_defrag", chosen("defrag")}};
}

Json clock(const fs::path& root) {
  const ClockQuality quality = measure_clock();
  return {
      {"source", encode(file_text(root / "sys/devices/system/clocksource/clocksource0/current_clocksource"))},
      {"name", quality.name},
      {"resolution_ns", quality.resolution_ns},
      {"cost_ns", quality.cost_ns}};
}

Json load_average(const fs::path& root) {
  double one = 0, five = 0, fifteen = 0;
  const auto text = file_text(root / "proc/loadavg");
  if (!text || std::sscanf(text->c_str(), "%lf %lf %lf", &one, &five, &fifteen) != 3) return nullptr;
  return {one, five, fifteen};
}

// Address randomisation moves a program's memory in each fork, and so changes which data collide in the
// caches: "full", "partial" or "off" for the machine, and "off" also if it is disabled for this process and
// therefore for its workers.
Json address_randomisation(const fs::path& root) {
  const int own = ::personality(0xffffffff);
  if (own != -1 && (own & ADDR_NO_RANDOMIZE) != 0) return "off";
  const auto setting = file_integer(root / "proc/sys/kernel/randomize_va_space");
  if (!setting) return nullptr;
  return *setting == 0 ? "off" : *setting == 1 ? "partial" : "full";
}

// Each cause with an observation and a remedy.
Json unsteady(const Json& environment) {
  Json causes = Json::array();
  const auto add = [&](std::string what, const char* remedy) {
    causes.push_back({{"what", std::move(what)}, {"remedy", remedy}});
  };
  const Json& cpu = environment["cpu"];
  if (cpu["governor"].is_string() && cpu["governor"] != "performance")
    add(fmt::format("the frequency governor is {}", cpu["governor"].get<std::string>()),
        "cpupower frequency-set -g performance");
  if (cpu["governor"].is_null())
    add("the clock frequency is not under this system's control", "compare ratios within rounds, not times");
  if (cpu["boost"] == true)
    add("the clock may boost, so speed depends on heat", "echo 0 > /sys/devices/system/cpu/cpufreq/boost");
  if (environment["virtualised"] == true)
    add("a hypervisor shares this machine with others", "check the flag \"stolen\"; use more forks");
  if (cpu["threads_per_core"].is_number() && cpu["threads_per_core"] > 1)
    add(fmt::format("{} hardware threads share a core", cpu["threads_per_core"].get<int>()),
        "use at most as many --threads as cores");
  if (environment["scheduling"] != "usual")
    add(fmt::format("this process has {}, and so have its workers",
                    environment["scheduling"].get<std::string>()),
        "start it without nice, chrt and numactl");
  const Json& load = environment["load_average"];
  if (load.is_array() && load[0].get<double>() > 0.5)
    add(fmt::format("the load was {:.2f} in the last minute", load[0].get<double>()), "stop other programs");
  const Json& group = environment["control_group"];
  if (group["cpu_quota"].is_number())
    add(fmt::format("a container may use {:.2f} cores", group["cpu_quota"].get<double>()),
        "use at most that many --threads, as by default; rounds in which the quota stops a worker do not count");
  if (group["memory_limit"].is_number())
    add(fmt::format("a container may use {:.1f} GiB of memory",
                    group["memory_limit"].get<double>() * 0x1p-30),
        "a worker that is killed there is reported as out_of_memory");
  if (environment["memory"]["swap_total"].is_number() && environment["memory"]["swap_total"] > 0)
    add("memory may be swapped out", "swapoff -a");
  if (environment["clock"]["source"].is_string() && environment["clock"]["source"] != "tsc" &&
      cpu["architecture"] == "x86_64")
    add(fmt::format("the clock source is {}, slow to read",
                    environment["clock"]["source"].get<std::string>()),
        "boot with clocksource=tsc");
  for (const Json& cause : unsteady_gpus(environment["gpus"])) causes.push_back(cause);
  return causes;
}

}  // namespace

Json environment(const fs::path& root) {
  utsname system{};
  uname(&system);
  const std::string flags = field_of(file_text(root / "proc/cpuinfo").value_or(""), "flags").value_or("");
  const std::string scheduling = unusual_scheduling();
  Json out{
      {"host", system.nodename},
      {"kernel", fmt::format("{} {}", system.sysname, system.release)},
      {"os", encode(field_of(file_text(root / "etc/os-release").value_or(""), "PRETTY_NAME"))},
      {"cpu", cpu_info(root)},
      {"memory", memory(root)},
      {"virtualised",
       flags.empty() ? Json(nullptr) : Json((" " + flags + " ").find(" hypervisor ") != std::string::npos)},
      {"control_group", control_group_limits(root)},
      {"address_randomisation", address_randomisation(root)},
      {"scheduling", scheduling.empty() ? "usual" : scheduling},
      {"load_average", load_average(root)},
      {"clock", clock(root)},
      {"nvml", nvml_info(nvml_access())},
      {"gpus", gpu_info(nvml_access(), root)}};
  out["unsteady"] = unsteady(out);
  return out;
}

std::int64_t last_level_cache(const Json& environment) {
  constexpr std::int64_t unknown = std::int64_t{32} << 20;
  const auto cpu = environment.find("cpu");
  if (cpu == environment.end() || !cpu->is_object() || !cpu->contains("caches")) return unknown;
  std::int64_t level = 0, bytes = 0;
  for (const Json& cache : (*cpu)["caches"]) {
    const auto own = cache.value("level", std::int64_t{0});
    if (own < level || cache.value("type", "") == "Instruction") continue;
    if (own > level) bytes = 0;
    level = own;
    bytes += cache.value("bytes", std::int64_t{0}) * cache.value("count", std::int64_t{1});
  }
  return bytes > 0 ? bytes : unknown;
}

std::int64_t gpu_cache(const Json& environment) {
  // The L2 cache in bytes: NVML does not report it.
  static constexpr std::pair<std::string_view, std::int64_t> known[] = {{"A100", 41943040},
                                                                        {"H100", 52428800},
                                                                        {"H200", 52428800},
                                                                        {"RTX 4090", 75497472},
                                                                        {"B200", 132644864}};
  constexpr std::int64_t largest = known[std::size(known) - 1].second;
  const auto gpus = environment.find("gpus");
  if (gpus == environment.end() || !gpus->is_array() || gpus->empty()) return largest;
  const Json& first = gpus->front();
  const auto name = first.find("model");
  if (name == first.end() || !name->is_string()) return largest;
  for (const auto& [part, size] : known) {
    if (name->get<std::string>().find(part) != std::string::npos) return size;
  }
  return largest;
}

}  // namespace assay
