#include "harness/core/io/npy.hpp"

#include <bit>
#include <cctype>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "harness/core/io/atomic_file.hpp"
#include "harness/core/io/error.hpp"
#include "harness/core/io/npy_header.hpp"

namespace assay {
namespace {

static_assert(std::endian::native == std::endian::little, "files are little-endian and read in place");

struct Header {
  TensorType type;
  std::size_t offset = 0;  // of the data
};

// A product that overflows is no size of a file.
std::uint64_t checked_bytes(const TensorType& type, const std::filesystem::path& path) {
  std::uint64_t bytes = static_cast<std::uint64_t>(size_of(type.dtype));
  bool empty = false;
  for (const std::int64_t extent : type.shape) {
    if (extent == 0) {
      empty = true;
    } else if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(extent), &bytes) ||
               bytes > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      throw IoError("npy", path, "the shape in the header is too large to be true");
    }
  }
  return empty ? 0 : bytes;
}

DType dtype_of(const std::string& name, const std::filesystem::path& path) {
  if (name == "<f4") return DType::f32;
  if (name == "<f8") return DType::f64;
  if (name == "<i4") return DType::i32;
  if (name == "|u1" || name == "<u1") return DType::u8;
  throw IoError("npy", path,
                fmt::format("holds elements '{}'; only '<f4', '<f8', '<i4' and '|u1' are read", name));
}

Header parse_header(std::span<const std::byte> bytes, const std::filesystem::path& path) {
  NpyHeader raw = parse_npy_header(bytes, path);
  if (raw.fortran_order)
    throw IoError("npy", path,
                  "'fortran_order' is not False: only C order is read; save np.ascontiguousarray(x)");
  const Header header{{dtype_of(raw.descr, path), std::move(raw.shape)}, raw.offset};
  const std::uint64_t wanted = checked_bytes(header.type, path);
  const std::uint64_t there = bytes.size() - header.offset;
  if (wanted != there)
    throw IoError(
        "npy", path,
        fmt::format("is {}: {} needs {} bytes of data, {} are there",
                    there < wanted ? "truncated" : "too long", to_string(header.type), wanted, there));
  return header;
}

std::string_view descr(DType dtype, const std::filesystem::path& path) {
  switch (dtype) {
    case DType::f64:
      return "<f8";
    case DType::f32:
      return "<f4";
    case DType::i32:
      return "<i4";
    case DType::u8:
      return "|u1";
    default:
      throw IoError("npy", path, fmt::format("{} has no place in .npy", to_string(dtype)));
  }
}

}  // namespace

void write_npy(const std::filesystem::path& path, const TensorType& type, std::span<const std::byte> bytes,
               bool durable) {
  if (static_cast<std::uint64_t>(type.bytes()) != bytes.size())
    throw IoError("npy", path,
                  fmt::format("{} needs {} bytes, got {}", to_string(type), type.bytes(), bytes.size()));
  std::string shape = "(";
  for (std::size_t i = 0; i < type.shape.size(); ++i)
    shape += fmt::format("{}{}", type.shape[i], i == 0 || i + 1 < type.shape.size() ? ", " : "");
  std::string text = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}), }}",
                                 descr(type.dtype, path), shape);
  text.append(63 - (10 + text.size()) % 64,
              ' ');  // magic, version, length, text and newline end at a multiple of 64
  text += '\n';
  std::string head(npy_magic);
  head += std::string("\x01\x00", 2);
  head += static_cast<char>(text.size() & 0xff);
  head += static_cast<char>(text.size() >> 8);
  AtomicFile file(path);
  file.write(head + text);
  file.write(bytes);
  file.commit(durable);
}

HostTensor read_npy(const std::filesystem::path& path) {
  const std::vector<std::byte> bytes = read_file(path);
  Header header = parse_header(bytes, path);
  return {
      {}, std::move(header.type), {bytes.begin() + static_cast<std::ptrdiff_t>(header.offset), bytes.end()}};
}

MappedNpy::MappedNpy(const std::filesystem::path& path) : file_(path) {
  Header header = parse_header(file_.bytes(), path);
  type_ = std::move(header.type);
  offset_ = header.offset;
  if (offset_ % static_cast<std::size_t>(size_of(type_.dtype)) != 0)
    throw IoError("npy", path,
                  fmt::format("its data begins at byte {}, which is not aligned for {}", offset_,
                              to_string(type_.dtype)));
}

}  // namespace assay
