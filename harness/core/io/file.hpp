// Reading files: mapped, whole or unpacked.
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

// Whether the open file is still the one at `path`: someone may have removed or replaced it. Does not follow
// links.
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
  // Releases ownership of the descriptor and returns it; -1 if it has none.
  int release() { return std::exchange(fd_, -1); }
  // Returns the result of close().
  int reset();

 private:
  int fd_ = -1;
};

// A regular file, mapped read-only and shared. The bytes live as long as this object. Throws IoError if the
// file is absent, unreadable or not a regular file. If another process truncates a mapped file, reading it
// raises SIGBUS; therefore files of a cell folder and of the cache are only replaced whole.
class MappedFile {
 public:
  MappedFile() = default;
  explicit MappedFile(const std::filesystem::path& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  // Asks the kernel to read the whole file ahead.
  void will_need() const;

 private:
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

// Gives a regular file to `visit` part by part: it may have any size, and change meanwhile. Throws IoError.
void read_parts(const std::filesystem::path& path,
                const std::function<void(std::span<const std::byte>)>& visit);

// Reads a file that another program wrote and may still change. It must be a regular file (no link, pipe or
// device) of at most `limit` bytes; it is copied, not mapped. Never blocks. Throws IoError.
std::vector<std::byte> read_foreign_file(const std::filesystem::path& path, std::uint64_t limit);

// What the first bytes of a file show it to be if it is not what its name promises: "it is a pointer of Git LFS; get
// the file itself with git lfs pull". Knows Git LFS, texts, archives, images and models. Empty for other content.
std::string kind_of_content(std::span<const std::byte> bytes);

// The encoding of a text that begins like UTF-16 or UTF-32, with or without a mark; empty for any other.
std::string_view wide_encoding(std::string_view text);
inline constexpr std::string_view utf8_mark = "\xef\xbb\xbf";

// Throws IoError, also if the file is larger than `limit` bytes.
std::vector<std::byte> read_file(const std::filesystem::path& path,
                                 std::uint64_t limit = std::uint64_t{1} << 36);
std::string read_text(const std::filesystem::path& path, std::uint64_t limit = std::uint64_t{1} << 30);

// The content of a file, inflated if it starts with gzip's magic number (whatever its name). Several members
// are read as one. Throws IoError naming the file if it is absent, truncated or corrupt, has trailing bytes
// that are not gzip, or has more than `limit` bytes. `whole` returns the size of the content, computed from
// its first 64 bytes; a content that inflates to more is rejected immediately.
std::vector<std::byte> read_gzip_or_plain(
    const std::filesystem::path& path, std::uint64_t limit = std::uint64_t{1} << 34,
    const std::function<std::uint64_t(std::span<const std::byte>)>& whole = {});

// For tests and fixtures.
void write_gzip(const std::filesystem::path& path, std::span<const std::byte> bytes);
inline void write_gzip(const std::filesystem::path& path, std::string_view text) {
  write_gzip(path, std::as_bytes(std::span(text)));
}

}  // namespace assay
