#include "harness/core/paths.hpp"

#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <system_error>

#include "harness/core/error.hpp"
#include "harness/core/io/scratch_root.hpp"
#include "harness/core/text.hpp"

namespace assay {

std::optional<std::string> environment_variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? std::optional<std::string>(value) : std::nullopt;
}

std::string environment_text(const char* name) { return environment_variable(name).value_or(""); }

std::map<std::string, std::string> environment_variables() {
  std::map<std::string, std::string> found;
  for (char** entry = ::environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string text(*entry);
    if (const std::size_t equals = text.find('='); equals != text.npos)
      found.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return found;
}

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

namespace {

namespace fs = std::filesystem;

// Empty: the environment names none.
fs::path wanted_cache() {
  if (const std::string cache = environment_text("ASSAY_CACHE"); !cache.empty()) return cache;
  if (const std::string caches = environment_text("XDG_CACHE_HOME"); !caches.empty())
    return fs::path(caches) / "assay";
  if (const std::string home = environment_text("HOME"); !home.empty())
    return fs::path(home) / ".cache/assay";
  return {};
}

// Makes the folder if it is missing. Returns why it cannot be trusted; empty: nobody else can have changed
// it.
std::string distrust(const fs::path& cache) {
  if (cache.empty())
    return "no cache folder: ASSAY_CACHE, XDG_CACHE_HOME and HOME are not set; set ASSAY_CACHE";
  const auto bad = [&](const std::string& why) {
    return "the cache folder " + cache.string() + " " + why + ": set ASSAY_CACHE to a folder of your own";
  };
  if (find_bad_utf8(cache.native()) != std::string::npos) return bad("has a name that is not UTF-8");
  std::error_code ignored;
  fs::create_directories(cache.parent_path(), ignored);
  const bool made = ::mkdir(cache.c_str(), 0700) == 0;
  const int error = errno;
  struct stat found{};
  if (::lstat(cache.c_str(), &found) != 0)
    return bad(std::string("cannot be created (") + std::strerror(made ? errno : error) + ")");
  if (!S_ISDIR(found.st_mode)) return bad(S_ISLNK(found.st_mode) ? "is a symbolic link" : "is not a folder");
  if (found.st_uid != ::geteuid()) return bad("belongs to user " + std::to_string(found.st_uid));
  if ((found.st_mode & S_IWOTH) != 0) return bad("can be written by everybody");
  return {};
}

}  // namespace

std::filesystem::path temporary_folder() {
  const std::string given = environment_text("TMPDIR");
  const fs::path folder = fs::absolute(given.empty() ? "/tmp" : given);
  std::error_code ignored;
  if (find_bad_utf8(folder.native()) != std::string::npos)
    throw IoError("scratch", folder, "is not UTF-8; set TMPDIR to a folder whose name is");
  if (!fs::is_directory(folder, ignored))
    throw IoError("scratch", folder, "does not exist or is not a folder; set TMPDIR to a writable folder");
  return folder;
}

bool may_execute_in(const std::filesystem::path& folder) {
  struct statvfs found{};
  return ::statvfs(folder.c_str(), &found) != 0 || (found.f_flag & ST_NOEXEC) == 0;
}

std::filesystem::path cache_folder() {
  const fs::path wanted = wanted_cache();
  if (distrust(wanted).empty()) return wanted;
  // Only for this process. If the process is killed, the next run removes the folder.
  static const ScratchRoot own(false);
  return own.path();
}

std::string why_nothing_is_cached() { return distrust(wanted_cache()); }

std::optional<std::filesystem::path> data_home() {
  if (const std::string set = environment_text("XDG_DATA_HOME"); !set.empty()) return fs::path(set);
  if (const std::string home = environment_text("HOME"); !home.empty())
    return fs::path(home) / ".local/share";
  return std::nullopt;
}

}  // namespace assay
