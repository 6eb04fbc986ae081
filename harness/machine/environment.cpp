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
#include <vector>

#include <fmt/format.h>

#include "harness/core/clock.hpp"
#include "harness/core/paths.hpp"
#include "harness/machine/gpu_sampler.hpp"
#include "harness/machine/hardware_info.hpp"
#include "harness/machine/nvml.hpp"
#include "harness/machine/system_files.hpp"

namespace assay {
namespace {

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

// A tree of control groups, and a group in it.
struct Hierarchy {
  fs::path mount;
  std::string group;
};

// "\040" -> " ": as the kernel writes blanks in mountinfo.
std::string unescaped(const std::string& text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned code = 0;
    if (text[i] == '\\' && std::sscanf(text.c_str() + i + 1, "%3o", &code) == 1) {
      plain += static_cast<char>(code);
      i += 3;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

// Where this process sees the tree of a controller of version 1, or that of version 2 (no controller), and the group of a
// process in it: by the mounts, which may be anywhere. `usual`: where the tree is if the mounts are not known.
std::optional<Hierarchy> hierarchy_of(const fs::path& root, const std::string& mountinfo,
                                      const std::string& groups, const std::string& controller,
                                      const fs::path& usual) {
  std::istringstream mounts(mountinfo);
  const std::string own = group(groups, controller).value_or("/");
  for (std::string line; std::getline(mounts, line);) {
    // 30 24 0:26 ROOT MOUNT OPTIONS [OPTIONAL...] - TYPE SOURCE SUPER-OPTIONS
    std::istringstream fields(line);
    std::string word, top, place, type, source, options;
    fields >> word >> word >> word >> top >> place;
    while (fields >> word && word != "-") {
    }
    if (!(fields >> type >> source >> options)) continue;
    const bool is_it =
        controller.empty()
            ? type == "cgroup2"
            : type == "cgroup" && ("," + options + ",").find("," + controller + ",") != std::string::npos;
    if (!is_it) continue;
    // In a container, the top of its mount may be the group that the host gave it.
    const std::string above = top == "/" ? "" : unescaped(top);
    const bool is_below = own.starts_with(above);
    return Hierarchy{root / fs::path(unescaped(place)).relative_path(),
                     is_below ? own.substr(above.size()) : own};
  }
  if (std::error_code ignored; fs::exists(usual, ignored)) return Hierarchy{usual, own};
  return std::nullopt;
}

struct Hierarchies {
  std::optional<Hierarchy> cpu, memory, v2;
};

Hierarchies hierarchies_of(const fs::path& root, const std::string& process) {
  const fs::path usual = root / "sys/fs/cgroup";
  const std::string mounts = file_text(root / "proc/self/mountinfo").value_or("");
  const std::string groups = file_text(root / "proc" / process / "cgroup").value_or("");
  const auto hierarchy = [&](const char* controller, const fs::path& place) {
    return hierarchy_of(root, mounts, groups, controller, place);
  };
  std::error_code ignored;
  // Version 2 is at the top, or next to the controllers of version 1, which may have some of its own.
  fs::path v2 = usual / "cgroup.controllers";
  for (const char* file : {"cpu.max", "unified/cgroup.controllers", "unified/cpu.max"})
    if (!fs::exists(v2, ignored)) v2 = usual / file;
  if (!fs::exists(v2, ignored)) v2.clear();
  return {.cpu = hierarchy("cpu", usual / "cpu"),
          .memory = hierarchy("memory", usual / "memory"),
          .v2 = hierarchy("", v2.empty() ? usual / "no version 2" : v2.parent_path())};
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

ControlGroupRecord control_group_limits(const fs::path& root) {
  const Hierarchies found = hierarchies_of(root, "self");
  std::optional<double> quota;
  std::optional<std::int64_t> memory;
  if (found.v2) {
    upwards(found.v2->mount, found.v2->group, [&](const fs::path& folder) {
      tighten(quota, quota_v2(folder));
      tighten(memory, file_integer(folder / "memory.max"));
    });
  }
  if (found.cpu)
    upwards(found.cpu->mount, found.cpu->group,
            [&](const fs::path& folder) { tighten(quota, quota_v1(folder)); });
  if (found.memory)
    upwards(found.memory->mount, found.memory->group,
            [&](const fs::path& folder) { tighten(memory, memory_v1(folder)); });
  const bool v1 = found.cpu || found.memory;
  ControlGroupRecord limits{.version = std::nullopt, .cpu_quota = quota, .memory_limit = memory};
  if (v1 || found.v2) limits.version = v1 ? 1 : 2;
  return limits;
}

std::optional<QuotaStops> quota_stops(const std::string& process, const fs::path& root) {
  const Hierarchies found = hierarchies_of(root, process);
  std::optional<QuotaStops> all;
  if (const std::optional<Hierarchy>& tree = found.cpu ? found.cpu : found.v2)
    upwards(tree->mount, tree->group, [&](const fs::path& folder) { add_stops(all, folder); });
  return all;
}

namespace {

MemoryRecord memory(const fs::path& root) {
  const std::string described = file_text(root / "proc/meminfo").value_or("");
  const auto bytes = [&](const char* key) -> std::optional<std::int64_t> {
    const auto text = field_of(described, key);
    const auto kibibytes = text ? size_of(*text) : std::nullopt;
    return kibibytes ? std::optional(*kibibytes << 10) : std::nullopt;
  };
  const auto chosen = [&](const char* file) -> std::optional<std::string> {  // "always [madvise] never"
    const auto text = file_text(root / "sys/kernel/mm/transparent_hugepage" / file);
    if (!text) return std::nullopt;
    const auto open = text->find('['), close = text->find(']');
    if (open == text->npos || close == text->npos) return std::nullopt;
    return text->substr(open + 1, close - open - 1);
  };
  return {.total = bytes("MemTotal"),
          .available = bytes("MemAvailable"),
          .swap_total = bytes("SwapTotal"),
          .huge_pages = chosen("enabled"),
          .huge_pages_defrag = chosen("defrag")};
}

ClockRecord clock(const fs::path& root) {
  const ClockQuality quality = measure_clock();
  return {.source = file_text(root / "sys/devices/system/clocksource/clocksource0/current_clocksource"),
          .name = quality.name,
          .resolution_ns = quality.resolution_ns,
          .cost_ns = quality.cost_ns};
}

std::optional<std::vector<double>> load_average(const fs::path& root) {
  double one = 0, five = 0, fifteen = 0;
  const auto text = file_text(root / "proc/loadavg");
  if (!text || std::sscanf(text->c_str(), "%lf %lf %lf", &one, &five, &fifteen) != 3) return std::nullopt;
  return std::vector{one, five, fifteen};
}

// Address randomisation moves a program's memory in each fork, and so changes which data collide in the
// caches: "full", "partial" or "off" for the machine, and "off" also if it is disabled for this process and
// therefore for its workers.
std::optional<std::string> address_randomisation(const fs::path& root) {
  const int own = ::personality(0xffffffff);
  if (own != -1 && (own & ADDR_NO_RANDOMIZE) != 0) return "off";
  const auto setting = file_integer(root / "proc/sys/kernel/randomize_va_space");
  if (!setting) return std::nullopt;
  return *setting == 0 ? "off" : *setting == 1 ? "partial" : "full";
}

using Causes = std::vector<UnsteadyCause>;

void add_processor(Causes& causes, const ProcessorRecord& cpu) {
  if (!cpu.governor)
    causes.push_back({"the clock frequency is not under this system's control",
                      "compare ratios within rounds, not times"});
  else if (*cpu.governor != "performance")
    causes.push_back({fmt::format("the frequency governor is {}", *cpu.governor),
                      "cpupower frequency-set -g performance"});
  if (cpu.boost.value_or(false))
    causes.push_back(
        {"the clock may boost, so speed depends on heat", "echo 0 > /sys/devices/system/cpu/cpufreq/boost"});
}

void add_limits(Causes& causes, const ControlGroupRecord& group) {
  if (group.cpu_quota)
    causes.push_back(
        {fmt::format("a container may use {:.2f} cores", *group.cpu_quota),
         "use at most that many --threads, as by default; rounds in which the quota stops a worker do not "
         "count"});
  if (group.memory_limit)
    causes.push_back({fmt::format("a container may use {:.1f} GiB of memory",
                                  static_cast<double>(*group.memory_limit) * 0x1p-30),
                      "a worker that is killed there is reported as out_of_memory"});
}

// Each cause with an observation and a remedy.
Causes unsteady(const MachineRecord& machine) {
  Causes causes;
  add_processor(causes, machine.cpu);
  if (machine.virtualised.value_or(false))
    causes.push_back(
        {"a hypervisor shares this machine with others", "check the flag \"stolen\"; use more forks"});
  if (const int threads = machine.cpu.threads_per_core.value_or(1); threads > 1)
    causes.push_back(
        {fmt::format("{} hardware threads share a core", threads), "use at most as many --threads as cores"});
  if (machine.scheduling != "usual")
    causes.push_back({fmt::format("this process has {}, and so have its workers", *machine.scheduling),
                      "start it without nice, chrt and numactl"});
  if (machine.load_average && machine.load_average->front() > 0.5)
    causes.push_back({fmt::format("the load was {:.2f} in the last minute", machine.load_average->front()),
                      "stop other programs"});
  add_limits(causes, machine.control_group);
  if (machine.memory.swap_total.value_or(0) > 0)
    causes.push_back({"memory may be swapped out", "swapoff -a"});
  if (machine.clock.source && *machine.clock.source != "tsc" && machine.cpu.architecture == "x86_64")
    causes.push_back({fmt::format("the clock source is {}, slow to read", *machine.clock.source),
                      "boot with clocksource=tsc"});
  for (UnsteadyCause& cause : unsteady_gpus(*machine.gpus)) causes.push_back(std::move(cause));
  return causes;
}

// Whether a hypervisor runs this system; the flags are those of the processor.
std::optional<bool> virtualised(const std::string& flags) {
  if (flags.empty()) return std::nullopt;
  return (" " + flags + " ").find(" hypervisor ") != std::string::npos;
}

}  // namespace

MachineRecord environment(const fs::path& root) {
  utsname system{};
  uname(&system);
  const std::string flags = field_of(file_text(root / "proc/cpuinfo").value_or(""), "flags").value_or("");
  const std::string scheduling = unusual_scheduling();
  MachineRecord machine{.host = system.nodename,
                        .kernel = fmt::format("{} {}", system.sysname, system.release),
                        .os = field_of(file_text(root / "etc/os-release").value_or(""), "PRETTY_NAME"),
                        .cpu = cpu_info(root),
                        .memory = memory(root),
                        .virtualised = virtualised(flags),
                        .control_group = control_group_limits(root),
                        .address_randomisation = address_randomisation(root),
                        .scheduling = scheduling.empty() ? "usual" : scheduling,
                        .load_average = load_average(root),
                        .clock = clock(root),
                        .nvml = nvml_info(nvml_access()),
                        .gpus = gpu_info(nvml_access(), root)};
  machine.unsteady = unsteady(machine);
  return machine;
}

std::int64_t last_level_cache(const MachineRecord& machine) {
  constexpr std::int64_t unknown = std::int64_t{32} << 20;
  if (!machine.cpu.caches) return unknown;
  std::int64_t bytes = 0;
  int level = 0;
  for (const CacheRecord& cache : *machine.cpu.caches) {
    if (cache.level < level || cache.type == "Instruction") continue;
    if (cache.level > level) bytes = 0;
    level = cache.level;
    bytes += cache.bytes * cache.count;
  }
  return bytes > 0 ? bytes : unknown;
}

namespace {

// By its number in the list, or the beginning of its UUID; null without one.
const GpuRecord* named_gpu(const std::vector<GpuRecord>& gpus, const std::string& name) {
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    if (name == std::to_string(i) || gpus[i].uuid.value_or("").starts_with(name)) return &gpus[i];
  }
  return nullptr;
}

}  // namespace

std::int64_t gpu_cache(const MachineRecord& machine) {
  // The L2 cache in bytes: NVML does not report it.
  static constexpr std::pair<std::string_view, std::int64_t> known[] = {{"A100", 41943040},
                                                                        {"H100", 52428800},
                                                                        {"H200", 52428800},
                                                                        {"RTX 4090", 75497472},
                                                                        {"B200", 132644864}};
  constexpr std::int64_t largest = known[std::size(known) - 1].second;
  if (!machine.gpus || machine.gpus->empty()) return largest;
  const auto names =
      visible_gpus(environment_variable("CUDA_VISIBLE_DEVICES"), static_cast<unsigned>(machine.gpus->size()));
  const GpuRecord* const first = names.empty() ? nullptr : named_gpu(*machine.gpus, names.front());
  const std::string model = first == nullptr ? "" : first->model.value_or("");
  for (const auto& [part, size] : known)
    if (model.find(part) != model.npos) return size;
  return largest;
}

}  // namespace assay
