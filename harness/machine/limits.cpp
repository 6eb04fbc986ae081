#include "harness/machine/limits.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <sstream>
#include <string>

#include <nlohmann/json.hpp>

#include "harness/core/or_null.hpp"
#include "harness/machine/system_files.hpp"

namespace assay {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

// Version 1 says "no limit" with the largest number of whole pages.
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

// A group and those around it. In a container the path may be the host's, which is not there: the mount's top
// then is the container's own.
template <typename Use>
void upwards(const fs::path& mount, const std::string& path, Use use) {
  fs::path below = fs::path(path).relative_path();
  while (!below.empty() && below != "..") {
    use(mount / below);
    below = below.parent_path();
  }
  use(mount);
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

std::optional<std::int64_t> memory_v1(const fs::path& folder) {
  const auto limit = file_integer(folder / "memory.limit_in_bytes");
  return limit && *limit < unlimited_v1 ? limit : std::nullopt;
}

}  // namespace

Json control_group_limits(const fs::path& root) {
  const fs::path mount = root / "sys/fs/cgroup";
  const std::string groups = file_text(root / "proc/self/cgroup").value_or("");
  std::error_code ignored;
  const bool v2 = fs::exists(mount / "cgroup.controllers", ignored) || fs::exists(mount / "cpu.max", ignored);
  const bool v1 = fs::exists(mount / "cpu", ignored) || fs::exists(mount / "memory", ignored);
  std::optional<double> quota;
  std::optional<std::int64_t> memory;
  if (v2) {
    upwards(mount, group(groups, "").value_or("/"), [&](const fs::path& folder) {
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
  return {{"version", v1   ? Json(1)
                      : v2 ? Json(2)
                           : Json(nullptr)},
          {"cpu_quota", or_null(quota)},
          {"memory_limit", or_null(memory)}};
}

}  // namespace assay
