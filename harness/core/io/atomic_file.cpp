#include "harness/core/io/atomic_file.hpp"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <regex>
#include <system_error>

#include <fmt/format.h>

#include "harness/core/error.hpp"

namespace assay {
namespace {

std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

// Until the folder is synchronised, a crash of the machine can lose the rename.
void synchronise_folder(const std::filesystem::path& folder) {
  const Descriptor descriptor(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!descriptor) return;  // the folder may be writable but not readable; the file itself is safe
  if (::fsync(descriptor.get()) != 0 && errno != EINVAL && errno != ENOTSUP)
    throw IoError("write", folder, "cannot be synchronised", errno);
}

void write_all(const Descriptor& file, const std::filesystem::path& path, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t done = ::write(file.get(), bytes.data(), bytes.size());
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) throw IoError("write", path, "cannot be written", errno);
    bytes = bytes.subspan(static_cast<std::size_t>(done));
  }
}

// Marks the file as in use by a living writer. Returns false if a sweeper removed it first. A file system
// without locks does not prevent writing.
bool claim(int file) {
  if (::flock(file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return false;
  struct stat status{};
  return ::fstat(file, &status) != 0 || status.st_nlink > 0;
}

}  // namespace

std::filesystem::path link_target(std::filesystem::path path) {
  std::error_code error;
  for (int hops = 0; hops < 40 && std::filesystem::is_symlink(path, error); ++hops) {
    const auto target = std::filesystem::read_symlink(path, error);
    if (error) break;
    path = target.is_absolute() ? target : folder_of(path) / target;
  }
  return path;
}

AtomicFile::AtomicFile(std::filesystem::path path) : path_(std::move(path)) {
  if (path_.empty()) throw IoError("write", path_, "the name of the file is empty");
  std::error_code ignored;
  if (std::filesystem::is_directory(path_, ignored)) throw IoError("write", path_, "is a folder, not a file");
  if (std::filesystem::exists(path_, ignored) && !std::filesystem::is_regular_file(path_, ignored)) {
    file_ =
        Descriptor(::open(path_.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK));  // a pipe may have no reader
    if (!file_) throw IoError("write", path_, "cannot be opened", errno);
    ::fcntl(file_.get(), F_SETFL, 0);
    return;
  }
  path_ = link_target(path_);
  static std::atomic<unsigned> counter = 0;
  do {
    temporary_ = path_;
    temporary_ += fmt::format(".{}.{}.tmp", ::getpid(), counter.fetch_add(1));
    file_ = Descriptor(::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  } while (file_ ? !claim(file_.get()) : errno == EEXIST);
  if (!file_) {
    const int error = errno;
    temporary_.clear();
    if (std::error_code gone; std::filesystem::current_path(gone).empty() && path_.is_relative())
      throw IoError("write", path_, "the working directory was removed; change to one that exists");
    if (error == ENOENT || error == ENOTDIR)
      throw IoError("write", path_,
                    fmt::format("the folder {} does not exist; create it first", folder_of(path_).string()));
    throw IoError("write", path_, "cannot be created", error);
  }
}

AtomicFile::~AtomicFile() {
  file_.reset();
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void AtomicFile::write(std::span<const std::byte> bytes) { write_all(file_, path_, bytes); }

void AtomicFile::commit(bool durable) {
  if (temporary_.empty()) {
    if (file_.reset() != 0) throw IoError("write", path_, "cannot be closed", errno);
    return;
  }
  if (durable && ::fsync(file_.get()) != 0)
    throw IoError("write", path_, "cannot be synchronised to the disk", errno);
  if (file_.reset() != 0) throw IoError("write", path_, "cannot be closed", errno);
  if (::rename(temporary_.c_str(), path_.c_str()) != 0)
    throw IoError("write", path_, "cannot be renamed into place", errno);
  temporary_.clear();
  if (durable) synchronise_folder(folder_of(path_));
}

std::size_t remove_abandoned(const std::filesystem::path& path) {
  static const std::regex ending(R"(\.[0-9]+\.[0-9]+\.tmp)");
  const std::string name = path.filename().string();
  std::size_t removed = 0;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder_of(path), error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string other = entry->path().filename().string();
    if (!other.starts_with(name) || !std::regex_match(other.substr(name.size()), ending)) continue;
    const Descriptor file(::open(entry->path().c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (file && ::flock(file.get(), LOCK_EX | LOCK_NB) == 0 && ::unlink(entry->path().c_str()) == 0)
      ++removed;
  }
  return removed;
}

void write_atomically(const std::filesystem::path& path, std::span<const std::byte> bytes, bool durable) {
  AtomicFile file(path);
  file.write(bytes);
  file.commit(durable);
}

void write_atomically(const std::filesystem::path& path, std::string_view text, bool durable) {
  write_atomically(path, std::as_bytes(std::span(text)), durable);
}

void copy_atomically(const std::filesystem::path& from, const std::filesystem::path& to, bool durable) {
  AtomicFile file(to);
  read_parts(from, [&](std::span<const std::byte> part) { file.write(part); });
  file.commit(durable);
}

void write_new_within(const std::filesystem::path& folder, const std::filesystem::path& place,
                      std::string_view text) {
  const std::filesystem::path path = folder / place;
  const Descriptor within(::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!within) throw IoError("write", folder, "cannot be opened", errno);
  open_how how{};
  how.flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
  how.mode = 0666;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS;
  Descriptor file(static_cast<int>(::syscall(SYS_openat2, within.get(), place.c_str(), &how, sizeof how)));
  if (!file && errno == ENOSYS)  // before Linux 5.6
    file = Descriptor(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
  if (!file && (errno == EEXIST || errno == ELOOP))
    throw IoError("write", path,
                  "was there before this program made it, or is behind a link: the worker put it there");
  if (!file) throw IoError("write", path, "cannot be created", errno);
  write_all(file, path, std::as_bytes(std::span(text)));
  if (file.reset() != 0) throw IoError("write", path, "cannot be closed", errno);
}

void copy_files(const std::filesystem::path& from, const std::filesystem::path& to, bool durable) {
  std::filesystem::create_directories(to);
  for (const auto& entry : std::filesystem::directory_iterator(from))
    if (entry.is_regular_file()) copy_atomically(entry.path(), to / entry.path().filename(), durable);
}

void make_folder_of(const std::filesystem::path& path) {
  if (!path.has_parent_path()) return;
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  if (error) throw IoError("write", path, "its folder cannot be made", error.value());
}

namespace {

// 0: the kernel does not tell (before Linux 5.8).
std::uint64_t mount_of(const std::filesystem::path& path) {
#ifdef STATX_MNT_ID
  struct statx found{};
  if (::statx(AT_FDCWD, path.c_str(), 0, STATX_MNT_ID, &found) == 0 && (found.stx_mask & STATX_MNT_ID) != 0)
    return found.stx_mnt_id;
#endif
  return 0;
}

}  // namespace

void require_writable(const std::filesystem::path& path) {
  AtomicFile file(path);
  std::error_code ignored;
  const std::filesystem::path target = link_target(path);
  if (std::filesystem::is_regular_file(target, ignored) && mount_of(target) != mount_of(folder_of(target)))
    throw IoError(
        "write", path,
        "is a mount of its own, as docker -v makes it of a file, and cannot be replaced; mount its folder");
  // Write one block, because a full disk could not hold the report either. Never write to a device or a pipe.
  if (std::filesystem::exists(path, ignored) && !std::filesystem::is_regular_file(path, ignored)) return;
  file.write(std::string(4096, '\n'));
}

}  // namespace assay
