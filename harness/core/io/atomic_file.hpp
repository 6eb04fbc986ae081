// A file that holds either its old content or the whole new content, even after a crash.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

#include "harness/core/io/file.hpp"

namespace assay {

// Writes to "<path>.<pid>.<n>.tmp" next to `path`, and renames it on commit(). Without commit() the
// destructor removes the temporary file and leaves `path` unchanged. Follows links, so a link stays a link.
// Writes directly to anything that is not a regular file (/dev/stdout, a pipe). The folder must exist. Throws
// IoError (a full disk, a folder without write permission).
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  // fsync, rename, fsync of the folder. With durable = false only the rename: use it if a crash of the
  // machine may lose the file but a crash of the process may not.
  void commit(bool durable = true);

 private:
  std::filesystem::path path_;       // as requested
  std::filesystem::path temporary_;  // empty if written directly, or after commit()
  Descriptor file_;
};

// Where AtomicFile writes: the path itself, or the end of the chain of symbolic links that begins there, whether or not
// there is a file.
std::filesystem::path link_target(std::filesystem::path path);

// The same in one call.
void write_atomically(const std::filesystem::path& path, std::span<const std::byte> bytes,
                      bool durable = true);
void write_atomically(const std::filesystem::path& path, std::string_view text, bool durable = true);

// Replaces `to` with the content of a regular file; never with a part of it, as std::filesystem::copy_file does if the
// disk is full for a moment. Throws IoError.
void copy_atomically(const std::filesystem::path& from, const std::filesystem::path& to, bool durable = true);

// Makes a file at a place below a folder in which another program may write now: follows no link below the folder, and
// replaces nothing. Throws IoError if there is something already. A program that reads meanwhile may see a part of it.
void write_new_within(const std::filesystem::path& folder, const std::filesystem::path& place,
                      std::string_view text);

// Makes `to` and copies the regular files of a folder into it, as copy_atomically() does. Throws IoError or
// std::filesystem::filesystem_error.
void copy_files(const std::filesystem::path& from, const std::filesystem::path& to, bool durable = true);

// Removes the temporary files next to `path` whose writer was killed before it could rename or remove them.
// Files of living writers are locked and stay. Returns the number of removed files; ignores files that it
// cannot remove.
std::size_t remove_abandoned(const std::filesystem::path& path);

// Makes the folders of a file that will be written, if they are missing. Throws IoError.
void make_folder_of(const std::filesystem::path& path);

// Throws IoError if a file could not be written at `path`; leaves no file there. Call it before a long run.
void require_writable(const std::filesystem::path& path);

}  // namespace assay
