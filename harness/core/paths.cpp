#include "harness/core/paths.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

namespace assay {

std::optional<std::string> environment_variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? std::optional<std::string>(value) : std::nullopt;
}

std::string environment_text(const char* name) { return environment_variable(name).value_or(""); }

std::vector<std::filesystem::path> environment_list(const char* name) {
  std::vector<std::filesystem::path> parts;
  const std::string all = environment_text(name);
  for (std::size_t begin = 0; begin < all.size();) {
    const std::size_t end = std::min(all.find(':', begin), all.size());
    if (end > begin) parts.emplace_back(all.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

std::filesystem::path cache_folder() {
  if (const std::string cache = environment_text("ASSAY_CACHE"); !cache.empty()) return cache;
  if (const std::string caches = environment_text("XDG_CACHE_HOME"); !caches.empty())
    return std::filesystem::path(caches) / "assay";
  if (const std::string home = environment_text("HOME"); !home.empty())
    return std::filesystem::path(home) / ".cache/assay";
  return std::filesystem::temp_directory_path() / ("assay-" + std::to_string(::getuid()));
}

}  // namespace assay
