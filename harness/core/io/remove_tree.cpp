#include "harness/core/io/remove_tree.hpp"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

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

}  // namespace

std::string remove_tree(const fs::path& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (!error) return {};
  take_back_all(path);
  fs::remove_all(path, error);
  if (!error) return {};
  return fmt::format("{} cannot be removed: {}", path.string(), error.message());
}

}  // namespace assay
