#include <algorithm>
#include <set>
#include <string_view>

#include <fmt/format.h>

#include "harness/conductor/backends/backends.hpp"
#include "harness/conductor/config/config.hpp"
#include "harness/core/text.hpp"
#include "workloads/network_file.hpp"
#include "workloads/workload.hpp"

namespace assay {

namespace fs = std::filesystem;

std::vector<fs::path> all_configs() {
  std::vector<fs::path> files;
  std::set<std::string> names;
  for (const fs::path& folder : config_folders()) {
    std::vector<fs::path> here;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(folder, error)) {
      if (entry.path().extension() == ".json") here.push_back(entry.path());
    }
    std::sort(here.begin(), here.end());
    for (fs::path& file : here) {
      if (names.insert(file.stem().string()).second) files.push_back(std::move(file));
    }
  }
  return files;
}

fs::path find_config(std::string_view name) {
  std::error_code error;
  if (fs::path given(name); fs::is_regular_file(given, error)) return given;
  std::vector<std::string> known;
  for (const fs::path& file : all_configs()) {
    if (file.stem() == name) return file;
    known.push_back(file.stem().string());
  }
  static const std::set<std::string_view> answers{"true", "false", "yes", "no", "on", "off", "0", "1"};
  if (answers.contains(name)) {
    throw ConfigError(fmt::format(
        "[config] got '{}' as the name of a config: write the value of a flag with =, as in --check=false",
        name));
  }
  for (const Workload& workload : all_workloads())
    if (workload.name == name)
      throw ConfigError(
          fmt::format("[config] got '{}': it is a workload, not a config; use --workload {}", name, name));
  if (fs::exists(fs::path(name) / network_file_name, error))
    throw ConfigError(fmt::format(
        "[config] got '{}': it is the folder of an imported network, not a config; use --workload {}", name,
        name.find('/') == name.npos ? fmt::format("./{}", name) : std::string(name)));
  if (fs::exists(name, error))
    throw ConfigError(
        fmt::format("[config] got '{}': it is {}, not a file", name,
                    fs::is_directory(name, error) ? "a folder" : "a pipe, a socket or a device"));
  throw ConfigError(
      fmt::format("[config] got '{}': no such file and no known config{}", name, suggestion(name, known)));
}

}  // namespace assay
