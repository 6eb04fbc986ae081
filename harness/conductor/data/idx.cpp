#include "harness/conductor/data/sample_files.hpp"

#include <fmt/format.h>

#include "harness/core/error.hpp"
#include "harness/core/io/atomic_file.hpp"
#include "harness/core/io/file.hpp"
#include "harness/core/io/gzip.hpp"
#include "harness/core/text.hpp"

namespace assay {
namespace {

constexpr unsigned unsigned_byte = 0x08;
constexpr std::uint64_t longest = std::uint64_t{1} << 32;

struct IdxHeader {
  std::size_t bytes = 0;  // of the header itself
  std::uint64_t elements = 1;
  Shape shape{};
};

std::string_view element_name(unsigned type) {
  switch (type) {
    case 0x09:
      return "signed bytes";
    case 0x0b:
      return "16-bit whole numbers";
    case 0x0c:
      return "32-bit whole numbers";
    case 0x0d:
      return "32-bit real numbers";
    case 0x0e:
      return "64-bit real numbers";
    default:
      return "unknown";
  }
}

IdxHeader parse_idx_header(std::span<const std::byte> bytes, const std::filesystem::path& path) {
  const auto fail = [&](std::string_view what) { return IoError("idx", path, what); };
  if (const std::string kind = kind_of_content(bytes); !kind.empty())
    throw fail("is not an IDX file: " + kind);
  if (bytes.size() < 4)
    throw fail(
        fmt::format("is truncated: it has {}, too few for the magic number", plural(bytes.size(), "byte")));
  const auto byte = [&](std::size_t i) { return std::to_integer<unsigned>(bytes[i]); };
  if (byte(0) != 0 || byte(1) != 0)
    throw fail(fmt::format(
        "is not an IDX file: it begins with {:02x}{:02x}{:02x}{:02x}, and the first two bytes must be zero",
        byte(0), byte(1), byte(2), byte(3)));
  if (byte(2) != unsigned_byte)
    throw fail(fmt::format("has elements of type 0x{:02x} ({}); only 0x08 (unsigned bytes) is supported",
                           byte(2), element_name(byte(2))));
  const std::size_t rank = byte(3);
  if (rank < 1 || rank > 4) throw fail(fmt::format("has {} dimensions; only 1 to 4 are supported", rank));
  IdxHeader header{.bytes = 4 + 4 * rank};
  if (bytes.size() < header.bytes)
    throw fail(
        fmt::format("is truncated: it has {} of the {} bytes of its header", bytes.size(), header.bytes));
  for (std::size_t d = 0; d < rank; ++d) {
    std::uint64_t extent = 0;
    for (std::size_t i = 0; i < 4; ++i) extent = extent << 8 | byte(4 + 4 * d + i);
    header.shape.push_back(static_cast<std::int64_t>(extent));
    if (extent == 0)
      throw fail(d == 0 ? "has no samples: the first dimension in its header is 0"
                        : fmt::format("has empty samples: dimension {} in its header is 0", d));
    if (__builtin_mul_overflow(header.elements, extent, &header.elements) || header.elements > longest)
      throw fail(fmt::format("dimension {} is {}, which is too large", d, extent));
  }
  return header;
}

void check_length(const IdxHeader& header, std::size_t bytes, const std::filesystem::path& path) {
  const std::uint64_t there = bytes - header.bytes;
  if (there != header.elements)
    throw IoError("idx", path,
                  fmt::format("is {}: {} needs {} bytes of data, and it has {}",
                              there < header.elements ? "truncated" : "too long", to_string(header.shape),
                              header.elements, there));
}

}  // namespace

IdxArray read_idx(const std::filesystem::path& path, std::uint64_t max_bytes) {
  const auto whole = [&](std::span<const std::byte> first) {
    const IdxHeader header = parse_idx_header(first, path);
    if (header.elements > max_bytes)
      throw IoError("idx", path,
                    fmt::format("the shape in its header is {}, and a file of the set has at most {} bytes",
                                to_string(header.shape), max_bytes));
    return header.bytes + header.elements;
  };
  return parse_idx(read_gzip_or_plain(path, max_bytes, whole), path);
}

Shape read_idx_shape(const std::filesystem::path& path) {
  constexpr std::size_t looked_at = 512;
  const MappedFile file(path);
  const std::span<const std::byte> bytes = file.bytes();
  if (is_gzip(bytes)) return parse_idx_header(inflated_start(bytes, path, looked_at), path).shape;
  const IdxHeader header = parse_idx_header(bytes, path);
  check_length(header, bytes.size(), path);
  return header.shape;
}

IdxArray parse_idx(std::vector<std::byte> content, const std::filesystem::path& path) {
  const IdxHeader header = parse_idx_header(content, path);
  check_length(header, content.size(), path);
  IdxArray array;
  array.shape = header.shape;
  array.bytes = std::move(content);
  array.bytes.erase(array.bytes.begin(), array.bytes.begin() + static_cast<std::ptrdiff_t>(header.bytes));
  return array;
}

void write_idx(const std::filesystem::path& path, const IdxArray& array) {
  std::string header{'\0', '\0', static_cast<char>(unsigned_byte), static_cast<char>(array.shape.size())};
  for (const std::int64_t extent : array.shape)
    for (const int shift : {24, 16, 8, 0}) header += static_cast<char>(extent >> shift & 0xff);
  AtomicFile file(path);
  file.write(header);
  file.write(array.bytes);
  file.commit(false);
}

}  // namespace assay
