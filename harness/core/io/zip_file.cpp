#include "harness/core/io/zip_file.hpp"

#include <zlib.h>

#include <algorithm>

#include <fmt/format.h>

#include "harness/core/error.hpp"

namespace assay {
namespace {

constexpr std::uint32_t end_magic = 0x06054b50, entry_magic = 0x02014b50, local_magic = 0x04034b50;
constexpr std::size_t end_size = 22, entry_size = 46, local_size = 30, longest_comment = 65535;
constexpr std::uint32_t in_zip64 = 0xffffffff;  // the true value stands in an extra field

class Archive {
 public:
  Archive(std::span<const std::byte> bytes, const std::filesystem::path& path) : bytes_(bytes), path_(path) {}

  std::map<std::string, std::vector<std::byte>> read(std::uint64_t limit) const {
    const std::size_t end = find_end();
    const std::size_t entries = u16(end + 10);
    if (u16(end + 4) != 0 || u16(end + 6) != 0 || u16(end + 8) != entries) fail("is in several parts");
    if (u32(end + 16) == in_zip64 || entries == 0xffff) fail("is a large archive (zip64), which is not read");
    std::map<std::string, std::vector<std::byte>> members;
    std::size_t at = u32(end + 16);
    for (std::size_t i = 0; i < entries; ++i) {
      if (at > end || end - at < entry_size || u32(at) != entry_magic)
        fail(fmt::format("has no entry {} where its directory says", i));
      const std::size_t name_size = u16(at + 28);
      const std::size_t size = entry_size + name_size + u16(at + 30) + u16(at + 32);
      if (end - at < size) fail(fmt::format("is cut short in entry {} of its directory", i));
      std::string name = text(at + entry_size, name_size);
      if (members.contains(name)) fail(fmt::format("has two members '{}'", printable(name)));
      const std::uint64_t length = u32(at + 24);
      if (length > limit) fail("holds more than is read");
      limit -= length;
      std::vector<std::byte> content = member(at, name);
      members.emplace(std::move(name), std::move(content));
      at += size;
    }
    return members;
  }

 private:
  [[noreturn]] void fail(std::string_view what) const { throw IoError("zip", path_, what); }
  static std::string printable(std::string_view text) {
    std::string clean(text.substr(0, 80));
    for (char& c : clean)
      if (c < ' ' || c > '~') c = '?';
    return clean;
  }

  // The caller has checked that the bytes are there.
  std::size_t byte(std::size_t at) const { return std::to_integer<std::size_t>(bytes_[at]); }
  std::size_t u16(std::size_t at) const { return byte(at) | byte(at + 1) << 8; }
  std::size_t u32(std::size_t at) const { return u16(at) | u16(at + 2) << 16; }
  std::string text(std::size_t at, std::size_t size) const {
    return {reinterpret_cast<const char*>(bytes_.data()) + at, size};
  }

  // The end of the directory stands at the end, before a comment.
  std::size_t find_end() const {
    if (bytes_.size() < end_size) fail("is too short for a zip archive");
    const std::size_t last = bytes_.size() - end_size;
    const std::size_t first = last - std::min(last, longest_comment);
    for (std::size_t at = last + 1; at-- > first;)
      if (u32(at) == end_magic && u16(at + 20) == last - at) return at;
    fail("has no directory at its end: it is no zip archive, or it is truncated");
  }

  std::vector<std::byte> member(std::size_t entry, const std::string& name) const {
    const auto broken = [&](std::string_view what) {
      return IoError("zip", path_, fmt::format("member '{}' {}", printable(name), what));
    };
    const std::size_t flags = u16(entry + 8), method = u16(entry + 10);
    const std::size_t packed = u32(entry + 20), length = u32(entry + 24), local = u32(entry + 42);
    if ((flags & 1) != 0) throw broken("is encrypted");
    if (method != 0 && method != 8)
      throw broken(fmt::format("is packed by method {}; stored and deflated are read", method));
    if (packed == in_zip64 || length == in_zip64 || local == in_zip64) throw broken("is larger than 4 GiB");
    if (local > bytes_.size() || bytes_.size() - local < local_size || u32(local) != local_magic)
      throw broken("is not where the directory says");
    const std::size_t begin = local + local_size + u16(local + 26) + u16(local + 28);
    if (begin > bytes_.size() || bytes_.size() - begin < packed) throw broken("is truncated");
    const auto source = bytes_.subspan(begin, packed);
    std::vector<std::byte> content;
    if (method == 0) {
      if (packed != length) throw broken("is stored with two lengths");
      content.assign(source.begin(), source.end());
    } else {
      // Deflate makes nothing smaller than a thousandth: a length beyond that is no reason to take memory.
      if (length / 1100 > packed) throw broken("has a length that cannot be true");
      content = inflated(source, length);
      if (content.size() != length) throw broken("does not inflate to its length");
    }
    const auto crc = crc32_z(0, reinterpret_cast<const Bytef*>(content.data()), content.size());
    if (crc != u32(entry + 16)) throw broken("does not match its checksum: it is damaged");
    return content;
  }

  // Empty when that is not what it inflates to.
  static std::vector<std::byte> inflated(std::span<const std::byte> source, std::size_t length) {
    std::vector<std::byte> content(length + 1);  // one more, so that a longer one is seen
    z_stream stream = {};
    if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) return {};
    // zlib wants a pointer to what it does not change.
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(source.data()));
    stream.avail_in = static_cast<uInt>(source.size());
    stream.next_out = reinterpret_cast<Bytef*>(content.data());
    stream.avail_out = static_cast<uInt>(content.size());
    const int status = inflate(&stream, Z_FINISH);
    const std::size_t written = stream.total_out;
    inflateEnd(&stream);
    if (status != Z_STREAM_END) return {};
    content.resize(written);
    return content;
  }

  std::span<const std::byte> bytes_;
  const std::filesystem::path& path_;
};

}  // namespace

std::map<std::string, std::vector<std::byte>> read_zip(std::span<const std::byte> bytes,
                                                       const std::filesystem::path& path,
                                                       std::uint64_t limit) {
  return Archive(bytes, path).read(limit);
}

}  // namespace assay
