// A file that is either the old one or the whole new one, whatever happens in between.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

#include "harness/core/io/file.hpp"

namespace assay {

// Writes to "<path>.<pid>.<n>.tmp" beside `path`, and renames it on commit(). Without commit() the destructor
// removes it and `path` is untouched. Links are followed, so that a link stays a link. What is not a regular
// file (/dev/stdout, a pipe) is written directly. The folder must exist. Errors are IoError (a full disk, a
// folder that may not be written to).
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  // fsync, rename, fsync of the folder. With durable = false only the rename: enough where a crash of the
  // machine may lose the file but a crash of the process may not.
  void commit(bool durable = true);

 private:
  std::filesystem::path path_;       // what was asked for
  std::filesystem::path temporary_;  // empty when written directly, or done
  Descriptor file_;
};

// In one call.
void write_atomically(const std::filesystem::path& path, std::span<const std::byte> bytes,
                      bool durable = true);
void write_atomically(const std::filesystem::path& path, std::string_view text, bool durable = true);

// Removes the temporary files beside `path` that a writer left who was killed before it could rename or
// remove them. Those of a living writer are locked, and stay. Gives how many; what cannot be removed is no
// error.
std::size_t remove_abandoned(const std::filesystem::path& path);

// Throws IoError when a file could not be written at `path`, without leaving one: to be asked before a long
// run.
void require_writable(const std::filesystem::path& path);

}  // namespace assay
