#include "harness/conductor/backends/places.hpp"

#include <algorithm>
#include <cstdlib>
#include <system_error>

namespace assay {
namespace {

namespace fs = std::filesystem;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

// An XDG folder, or its default below the home, or one below the temporary folder where there is no home.
fs::path user_folder(const char* xdg, const char* below_home) {
  if (const std::string set = variable(xdg); !set.empty()) return set;
  if (const std::string home = variable("HOME"); !home.empty()) return fs::path(home) / below_home;
  std::error_code ignored;
  return fs::temp_directory_path(ignored);
}

}  // namespace

fs::path executable_folder() {
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  return error ? fs::path(".") : self.parent_path();
}

std::vector<fs::path> colon_list(const char* name) {
  std::vector<fs::path> parts;
  std::string rest = variable(name);
  while (!rest.empty()) {
    const std::size_t colon = std::min(rest.find(':'), rest.size());
    if (colon > 0) parts.emplace_back(rest.substr(0, colon));
    rest.erase(0, std::min(colon + 1, rest.size()));
  }
  return parts;
}

std::vector<fs::path> backend_folders() {
  std::vector<fs::path> folders = colon_list("ASSAY_BACKENDS");
  folders.push_back(executable_folder() / "backends");
  folders.push_back(executable_folder().parent_path() / "libexec/assay/backends");
  return folders;
}

std::vector<fs::path> config_folders() {
  std::vector<fs::path> folders = colon_list("ASSAY_CONFIGS");
  folders.push_back(executable_folder() / "configs");
  folders.push_back(executable_folder().parent_path() / "share/assay/configs");
  folders.push_back(executable_folder().parent_path().parent_path() / "configs");
  return folders;
}

fs::path environment_of(std::string_view framework) {
  const std::string set = variable("ASSAY_ENVIRONMENTS");
  const fs::path root =
      set.empty() ? user_folder("XDG_DATA_HOME", ".local/share") / "assay/environments" : fs::path(set);
  return root / framework;
}

fs::path batch_library() {
  const fs::path built = executable_folder() / "libassay_batch.so";
  const fs::path installed = executable_folder().parent_path() / "lib/libassay_batch.so";
  std::error_code ignored;
  return !fs::exists(built, ignored) && fs::exists(installed, ignored) ? installed : built;
}

fs::path cache_folder() { return user_folder("XDG_CACHE_HOME", ".cache") / "assay"; }

}  // namespace assay
