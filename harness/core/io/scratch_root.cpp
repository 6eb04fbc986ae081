#include "harness/core/io/scratch_root.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>
#include <string_view>
#include <system_error>

#include "harness/core/error.hpp"
#include "harness/core/io/file.hpp"
#include "harness/core/paths.hpp"

namespace assay {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view folder_prefix = "assay-";
constexpr std::size_t name_length = folder_prefix.size() + 6;  // of mkdtemp's XXXXXX
// A folder may have our name by chance; this line in its lock file makes it ours.
constexpr std::string_view mark = "assay-scratch/1\n";

bool is_marked(int file) {
  char text[mark.size() + 1];
  const ssize_t count = ::pread(file, text, sizeof text, 0);
  return count > 0 && std::string_view(text, static_cast<std::size_t>(count)) == mark;
}

bool is_ours(const fs::path& folder) {
  struct stat there{};
  return ::lstat(folder.c_str(), &there) == 0 && S_ISDIR(there.st_mode) && there.st_uid == ::geteuid();
}

// Remove the lock last: a folder without a lock belongs to nobody and would stay for ever.
bool remove_with_lock(const fs::path& folder) {
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    std::error_code ignored;
    if (entry->path().filename() != "lock") fs::remove_all(entry->path(), ignored);
  }
  fs::remove_all(folder, error);
  return !error;
}

bool sweep(const fs::path& folder) {
  if (!is_ours(folder)) return false;
  const fs::path lock = folder / "lock";
  const int file = ::open(lock.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (file < 0) return false;
  bool removed = false;
  // Between our open and our lock another sweeper may have removed the folder, and a new run may use its
  // name.
  if (::flock(file, LOCK_EX | LOCK_NB) == 0 && is_marked(file) && is_still_at(file, lock)) {
    removed = remove_with_lock(folder);
  }
  ::close(file);
  return removed;
}

}  // namespace

ScratchRoot::ScratchRoot(bool keep) {
  const fs::path temporary = temporary_folder();
  sweep_stale_scratch(temporary);
  std::string pattern = (temporary / std::string(folder_prefix)).string() + "XXXXXX";
  if (!::mkdtemp(pattern.data()))
    throw IoError("scratch", temporary, "a folder cannot be created in it; set TMPDIR to a writable folder",
                  errno);
  path_ = pattern;
  if (keep) return;
  const fs::path lock = path_ / "lock";
  lock_ = ::open(lock.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  // Write the mark last: a sweeper ignores folders without it.
  if (lock_ < 0 || ::flock(lock_, LOCK_EX | LOCK_NB) != 0 ||
      ::write(lock_, mark.data(), mark.size()) != static_cast<ssize_t>(mark.size())) {
    const int error = errno;
    if (lock_ >= 0) ::close(lock_);
    std::error_code ignored;
    fs::remove_all(path_, ignored);
    throw IoError("scratch", lock, "cannot be written; set TMPDIR to a folder with room", error);
  }
}

ScratchRoot::~ScratchRoot() {
  if (lock_ < 0) return;
  remove_with_lock(path_);
  ::close(lock_);
}

int sweep_stale_scratch(const fs::path& temporary) {
  int removed = 0;
  std::error_code error;
  for (fs::directory_iterator entry(temporary, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.size() == name_length && name.starts_with(folder_prefix)) removed += sweep(entry->path());
  }
  return removed;
}

}  // namespace assay
