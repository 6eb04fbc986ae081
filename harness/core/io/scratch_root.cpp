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
#include "harness/core/io/remove_tree.hpp"
#include "harness/core/paths.hpp"

namespace assay {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view folder_prefix = "assay-scratch-";
constexpr std::size_t name_length = folder_prefix.size() + 6;  // of mkdtemp's XXXXXX
// In the lock file of a folder that is in use. A run that was killed before it wrote this line left nothing else.
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

// Removes the lock last: as long as there is a lock, a later run finds the rest.
bool remove_with_lock(const fs::path& folder) {
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    if (entry->path().filename() != "lock") remove_tree(entry->path());
  }
  return remove_tree(folder).empty();
}

// Whether the folder has only this lock, without a mark.
bool is_bare(const fs::path& folder, int lock) {
  struct stat found{};
  std::error_code error;
  int entries = 0;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
    ++entries;
  return !error && entries == 1 && ::fstat(lock, &found) == 0 && S_ISREG(found.st_mode) && found.st_size == 0;
}

bool sweep(const fs::path& folder) {
  if (!is_ours(folder)) return false;
  const fs::path lock = folder / "lock";
  const int file = ::open(lock.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  // A run was killed before it made its lock, or after it removed it. A run that is about to make it makes another
  // folder.
  if (file < 0) return errno == ENOENT && ::rmdir(folder.c_str()) == 0;
  bool removed = false;
  // Between our open and our lock another sweeper may have removed the folder, and a new run may use its
  // name.
  if (::flock(file, LOCK_EX | LOCK_NB) == 0 && is_still_at(file, lock)) {
    if (is_marked(file))
      removed = remove_with_lock(folder);
    else if (is_bare(folder, file))
      removed = ::unlink(lock.c_str()) == 0 && ::rmdir(folder.c_str()) == 0;
  }
  ::close(file);
  return removed;
}

fs::path make_folder(const fs::path& temporary) {
  std::string pattern = (temporary / std::string(folder_prefix)).string() + "XXXXXX";
  if (!::mkdtemp(pattern.data()))
    throw IoError("scratch", temporary, "a folder cannot be created in it; set TMPDIR to a writable folder",
                  errno);
  return pattern;
}

// Makes the file that protects a folder from sweepers: a lock that this process holds, or for a folder that is kept a file
// that is not a lock. Returns its descriptor; -1: a sweeper has removed the folder. Throws IoError.
int protect(const fs::path& folder, bool keep) {
  const fs::path path = folder / (keep ? "kept" : "lock");
  const auto fail = [&](int error) -> IoError {
    std::error_code ignored;
    fs::remove_all(folder, ignored);
    return {"scratch", path, "cannot be written; set TMPDIR to a folder with room", error};
  };
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0 && errno == ENOENT) return -1;
  if (file < 0) throw fail(errno);
  if (keep) return file;
  const bool locked = ::flock(file, LOCK_EX | LOCK_NB) == 0;
  const bool swept = locked ? !is_still_at(file, path) : errno == EWOULDBLOCK;
  if (!swept && locked && ::write(file, mark.data(), mark.size()) == static_cast<ssize_t>(mark.size()))
    return file;
  const int error = errno;
  ::close(file);
  if (swept) return -1;
  throw fail(error);
}

}  // namespace

ScratchRoot::ScratchRoot(bool keep) {
  const fs::path temporary = temporary_folder();
  sweep_stale_scratch(temporary);
  int file = -1;
  while (file < 0) {
    path_ = make_folder(temporary);
    file = protect(path_, keep);
  }
  if (keep)
    ::close(file);
  else
    lock_ = file;
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
