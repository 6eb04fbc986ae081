#include "harness/core/io/file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include <fmt/format.h>

#include "harness/core/error.hpp"
#include "harness/core/io/atomic_file.hpp"
#include "harness/core/io/gzip.hpp"

namespace assay {
namespace {

Descriptor open_to_read(const std::filesystem::path& path, struct stat& status, int flags = 0) {
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | flags));
  if (!file) throw IoError("read", path, "cannot be opened", errno);
  if (::fstat(file.get(), &status) != 0) throw IoError("read", path, "cannot be examined", errno);
  if (S_ISDIR(status.st_mode)) throw IoError("read", path, "is a folder, not a file");
  return file;
}

// The number of bytes that were read; 0 at the end.
std::size_t read_some(const Descriptor& file, const std::filesystem::path& path, void* to, std::size_t size) {
  for (;;) {
    const ssize_t got = ::read(file.get(), to, size);
    if (got >= 0) return static_cast<std::size_t>(got);
    if (errno != EINTR) throw IoError("read", path, "cannot be read", errno);
  }
}

// Reads to the end and ignores the size from stat: pipes and /proc have no size.
template <typename Bytes>
Bytes read_whole(const std::filesystem::path& path, std::uint64_t limit, bool foreign = false) {
  struct stat status = {};
  const Descriptor file = open_to_read(path, status, foreign ? O_NOFOLLOW | O_NONBLOCK : 0);
  if (foreign && !S_ISREG(status.st_mode)) throw IoError("read", path, "is not a regular file");
  const auto too_large = [&] { return IoError("read", path, fmt::format("is larger than {} bytes", limit)); };
  if (status.st_size > 0 && static_cast<std::uint64_t>(status.st_size) > limit) throw too_large();
  Bytes bytes;
  bytes.resize(static_cast<std::size_t>(status.st_size > 0 ? status.st_size : 0) + 1);
  std::size_t size = 0;
  while (true) {
    if (size == bytes.size()) bytes.resize(bytes.size() * 2 + 4096);
    const std::size_t got = read_some(file, path, bytes.data() + size, bytes.size() - size);
    if (got == 0) break;
    size += got;
    if (size > limit) throw too_large();
  }
  bytes.resize(size);
  return bytes;
}

}  // namespace

void read_parts(const std::filesystem::path& path,
                const std::function<void(std::span<const std::byte>)>& visit) {
  struct stat status = {};
  const Descriptor file = open_to_read(path, status, O_NONBLOCK);  // a pipe would wait for a writer
  if (!S_ISREG(status.st_mode)) throw IoError("read", path, "is not a regular file");
  std::vector<std::byte> part(std::size_t{1} << 18);
  while (const std::size_t got = read_some(file, path, part.data(), part.size()))
    visit(std::span(part).first(got));
}

bool is_still_at(int file, const std::filesystem::path& path) {
  struct stat opened{}, there{};
  return ::fstat(file, &opened) == 0 && ::lstat(path.c_str(), &there) == 0 && opened.st_ino == there.st_ino &&
         opened.st_dev == there.st_dev;
}

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  if (this != &other) {
    reset();
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

int Descriptor::reset() { return fd_ >= 0 ? ::close(std::exchange(fd_, -1)) : 0; }

MappedFile::MappedFile(const std::filesystem::path& path) {
  struct stat status = {};
  const Descriptor file = open_to_read(path, status, O_NONBLOCK);  // a pipe would wait for a writer
  if (!S_ISREG(status.st_mode)) throw IoError("map", path, "is not a regular file");
  if (status.st_size == 0) return;
  size_ = static_cast<std::size_t>(status.st_size);
  void* const memory = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, file.get(), 0);
  if (memory == MAP_FAILED)
    throw IoError("map", path, fmt::format("cannot be mapped ({} bytes)", size_), errno);
  data_ = static_cast<const std::byte*>(memory);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

void MappedFile::will_need() const {
  if (data_ != nullptr) ::madvise(const_cast<std::byte*>(data_), size_, MADV_WILLNEED);
}

std::string kind_of_content(std::span<const std::byte> bytes) {
  constexpr std::size_t looked_at = 512;
  std::string text(reinterpret_cast<const char*>(bytes.data()), std::min(bytes.size(), looked_at));
  using namespace std::string_view_literals;
  constexpr std::array kinds{
      std::pair{"PK\x03\x04"sv,
                "it is a ZIP archive, such as numpy's .npz and PyTorch's .pt; unpack or convert it"},
      std::pair{"\x1f\x8b"sv, "it is compressed by gzip; unpack it"},
      std::pair{"\x89PNG"sv, "it is a PNG; convert it"},
      std::pair{"\x89HDF"sv, "it is an HDF5 file, such as Keras's .h5; convert it"},
      std::pair{"GGUF"sv, "it is a GGUF file, as llama.cpp reads it; convert it"},
      std::pair{"GIF8"sv, "it is a GIF; convert it"},
      std::pair{"%PDF-"sv, "it is a PDF; convert it"},
  };
  if (text.starts_with("RIFF") && text.substr(8).starts_with("WEBP")) return "it is a WebP; convert it";
  if (text.size() > 8 && text.substr(4).starts_with("ftyp")) return "it is HEIF, AVIF or a video; convert it";
  for (const auto& [start, kind] : kinds)
    if (text.starts_with(start)) return kind;
  if (text.starts_with("version https://git-lfs."))
    return "it is a pointer of Git LFS; get the file itself with git lfs pull";
  text.erase(0, text.find_first_not_of(" \t\r\n\xef\xbb\xbf"));
  std::ranges::transform(text, text.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  if (text.starts_with("<!doctype html") || text.starts_with("<html") || text.starts_with("<head"))
    return "it is a web page, as a failed download leaves it; download the file again";
  if (text.starts_with("{\"") || text.starts_with("{\n") || text.starts_with("{ ")) return "it is JSON";
  return {};
}

std::string_view wide_encoding(std::string_view text) {
  using namespace std::string_view_literals;
  if (text.starts_with("\xff\xfe\0\0"sv) || text.starts_with("\0\0\xfe\xff"sv)) return "UTF-32";
  if (text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff")) return "UTF-16";
  // Without a mark, the bytes of ASCII characters are next to zeros.
  if (text.size() >= 4 && (text[0] == '\0') != (text[1] == '\0') && (text[0] == '\0') == (text[2] == '\0') &&
      (text[1] == '\0') == (text[3] == '\0'))
    return "UTF-16";
  return {};
}

std::vector<std::byte> read_foreign_file(const std::filesystem::path& path, std::uint64_t limit) {
  return read_whole<std::vector<std::byte>>(path, limit, true);
}

std::vector<std::byte> read_file(const std::filesystem::path& path, std::uint64_t limit) {
  return read_whole<std::vector<std::byte>>(path, limit);
}

std::string read_text(const std::filesystem::path& path, std::uint64_t limit) {
  return read_whole<std::string>(path, limit);
}

std::vector<std::byte> read_gzip_or_plain(
    const std::filesystem::path& path, std::uint64_t limit,
    const std::function<std::uint64_t(std::span<const std::byte>)>& whole) {
  std::vector<std::byte> bytes = read_file(path, limit);
  if (!is_gzip(bytes)) return bytes;
  return inflated(bytes, path, limit, whole);
}

void write_gzip(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  write_atomically(path, deflated(bytes, path));
}

}  // namespace assay
