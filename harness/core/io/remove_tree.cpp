#include "harness/core/io/remove_tree.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <string>
#include <system_error>

#include <fmt/format.h>

#include "harness/core/io/file.hpp"

namespace assay {
namespace {

namespace fs = std::filesystem;

// As far as this process may.
void take_back(const fs::path& entry) {
  struct stat found{};
  if (::lstat(entry.c_str(), &found) != 0 || !(S_ISDIR(found.st_mode) || S_ISREG(found.st_mode))) return;
  const Descriptor opened(::open(entry.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  int flags = 0;
  if (opened && ::ioctl(opened.get(), FS_IOC_GETFLAGS, &flags) == 0 &&
      (flags & (FS_IMMUTABLE_FL | FS_APPEND_FL)) != 0) {
    flags &= ~(FS_IMMUTABLE_FL | FS_APPEND_FL);
    [[maybe_unused]] const int ignored = ::ioctl(opened.get(), FS_IOC_SETFLAGS, &flags);
  }
  if (S_ISDIR(found.st_mode) && (found.st_mode & S_IRWXU) != S_IRWXU) {
    [[maybe_unused]] const int ignored = ::chmod(entry.c_str(), S_IRWXU);
  }
}

// A folder before its entries, which cannot be listed without its permissions.
void take_back_all(const fs::path& path) {
  take_back(path);
  std::error_code error;
  if (!fs::is_directory(fs::symlink_status(path, error))) return;
  for (fs::directory_iterator entry(path, error), end; !error && entry != end; entry.increment(error))
    take_back_all(entry->path());
}

// Removes what is in a folder. A folder too deep below `top` is moved up there, for a later pass: each level needs a
// descriptor, and there may be more levels than descriptors or characters of a path. Returns whether it changed anything.
bool remove_entries(int folder, int top, int depth) {
  constexpr int max_depth = 32;
  static std::atomic<unsigned> number = 0;
  DIR* const listed = ::fdopendir(::dup(folder));
  if (listed == nullptr) return false;
  ::rewinddir(listed);  // an earlier pass read it to its end
  bool changed = false;
  while (const dirent* entry = ::readdir(listed)) {
    const std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    if (::unlinkat(folder, name.c_str(), 0) == 0 || ::unlinkat(folder, name.c_str(), AT_REMOVEDIR) == 0) {
      changed = true;
      continue;
    }
    if (depth >= max_depth) {
      const std::string moved = fmt::format("assay-deep-{}", number.fetch_add(1));
      changed = ::renameat2(folder, name.c_str(), top, moved.c_str(), RENAME_NOREPLACE) == 0 || changed;
      continue;
    }
    const Descriptor below(::openat(folder, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!below) continue;
    changed = remove_entries(below.get(), top, depth + 1) || changed;
    changed = ::unlinkat(folder, name.c_str(), AT_REMOVEDIR) == 0 || changed;
  }
  ::closedir(listed);
  return changed;
}

void remove_deep(const fs::path& path) {
  const Descriptor top(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  while (top && remove_entries(top.get(), top.get(), 0)) {
  }
}

}  // namespace

std::string remove_tree(const fs::path& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (!error) return {};
  take_back_all(path);
  fs::remove_all(path, error);
  if (!error) return {};
  remove_deep(path);
  fs::remove_all(path, error);
  if (!error) return {};
  return fmt::format("{} cannot be removed: {}", path.string(), error.message());
}

}  // namespace assay
