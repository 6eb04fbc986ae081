// Files that are read: mapped, whole or unpacked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace assay {

// Whether the open file is the one at the path, which somebody may have removed or replaced since. Follows no link.
bool is_still_at(int file, const std::filesystem::path& path);

// Closes its descriptor. Move-only.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor() { reset(); }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  // Gives the descriptor away; -1 if there is none.
  int release() { return std::exchange(fd_, -1); }
  // Returns what close() said.
  int reset();

 private:
  int fd_ = -1;
};

// A regular file mapped read-only and shared. The bytes live as long as this. Throws IoError when the file is
// absent, unreadable or not a regular file. A file that is truncated by somebody else while it is mapped
// raises SIGBUS: files of a cell folder and of the cache are only ever replaced whole.
class MappedFile {
 public:
  MappedFile() = default;
  explicit MappedFile(const std::filesystem::path& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  // Asks the kernel to read it all ahead.
  void will_need() const;

 private:
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

// A file that somebody else wrote and may still change: regular (no link, no pipe, no device), at most `limit` bytes, and
// copied, not mapped. Never waits. Throws IoError.
std::vector<std::byte> read_foreign_file(const std::filesystem::path& path, std::uint64_t limit);

// Throws IoError, also when the file is larger than `limit` bytes.
std::vector<std::byte> read_file(const std::filesystem::path& path,
                                 std::uint64_t limit = std::uint64_t{1} << 36);
std::string read_text(const std::filesystem::path& path, std::uint64_t limit = std::uint64_t{1} << 30);

// The content of a file, inflated when it starts with gzip's magic number (whatever its name). Several
// members are read as one. Throws IoError naming the file: absent, truncated, corrupt, trailing bytes that
// are no gzip, or more than `limit` bytes. `whole`: says from the first 64 bytes how many the content has by its own
// header; what inflates to more is refused as soon as it does.
std::vector<std::byte> read_gzip_or_plain(
    const std::filesystem::path& path, std::uint64_t limit = std::uint64_t{1} << 34,
    const std::function<std::uint64_t(std::span<const std::byte>)>& whole = {});

// For tests and fixtures.
void write_gzip(const std::filesystem::path& path, std::span<const std::byte> bytes);
inline void write_gzip(const std::filesystem::path& path, std::string_view text) {
  write_gzip(path, std::as_bytes(std::span(text)));
}

}  // namespace assay
