#include "harness/core/io/npy.hpp"

#include <bit>
#include <cctype>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "harness/core/error.hpp"
#include "harness/core/io/atomic_file.hpp"
#include "harness/core/text.hpp"

namespace assay {
namespace {

constexpr std::size_t max_npy_header = 65536;
constexpr std::size_t max_npy_rank = 16;

// Reads the Python literal {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }: exactly these keys,
// in any order.
class Parser {
 public:
  Parser(std::string_view text, const std::filesystem::path& path) : text_(text), path_(path) {}

  NpyHeader parse() {
    bool descr = false, order = false, shape = false;
    NpyHeader header;
    expect('{');
    while (!accept('}')) {
      const std::string_view key = quoted();
      expect(':');
      if (key == "descr" && !std::exchange(descr, true)) {
        header.descr = printable(quoted(), 40);
      } else if (key == "fortran_order" && !std::exchange(order, true)) {
        const std::string_view value = word();
        if (value != "False" && value != "True") fail("'fortran_order' is neither True nor False");
        header.fortran_order = value == "True";
      } else if (key == "shape" && !std::exchange(shape, true)) {
        header.shape = tuple();
      } else {
        fail(fmt::format("the header has an unknown or repeated key '{}'", printable(key, 40)));
      }
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip_space();
    if (at_ != text_.size()) fail("bytes follow the dictionary of the header");
    if (!descr || !order || !shape) fail("the header lacks 'descr', 'fortran_order' or 'shape'");
    return header;
  }

 private:
  [[noreturn]] void fail(std::string_view what) const { throw IoError("npy", path_, what); }

  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  bool accept(char c) {
    skip_space();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) fail(fmt::format("the header has no '{}' at its byte {}", c, at_));
  }
  std::string_view quoted() {
    skip_space();
    const char quote = at_ < text_.size() ? text_[at_] : '\0';
    if (quote == '[')
      fail(
          "its elements are records (a structured dtype), which are not read; save one field of them as a plain "
          "array: np.save(path, x['name'])");
    if (quote != '\'' && quote != '"') fail(fmt::format("the header has no string at its byte {}", at_));
    const std::size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) fail("a string in the header has no end");
    const std::string_view value = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return value;
  }
  std::string_view word() {
    skip_space();
    const std::size_t begin = at_;
    while (at_ < text_.size() && std::isalpha(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
    return text_.substr(begin, at_ - begin);
  }
  Shape tuple() {
    Shape shape;
    expect('(');
    while (!accept(')')) {
      skip_space();
      std::int64_t extent = 0;
      const std::size_t begin = at_;
      for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_)
        if (__builtin_mul_overflow(extent, 10, &extent) ||
            __builtin_add_overflow(extent, text_[at_] - '0', &extent))
          fail("a dimension is too large");
      if (at_ == begin) fail(fmt::format("the shape has no number at byte {} of the header", at_));
      accept('L');  // as Python 2 writes a long number
      shape.push_back(extent);
      if (shape.size() > max_npy_rank) fail(fmt::format("has more than {} dimensions", max_npy_rank));
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    return shape;
  }

  std::string_view text_;
  const std::filesystem::path& path_;
  std::size_t at_ = 0;
};

}  // namespace

std::string npy_type_text(std::string_view descr) {
  const auto named = [&](std::string_view kind) { return fmt::format("'{}' ({})", descr, kind); };
  if (descr.size() < 2) return fmt::format("'{}'", descr);
  const std::string_view bytes = descr.substr(2);
  const std::string bits = bytes == "1"    ? "8"
                           : bytes == "2"  ? "16"
                           : bytes == "4"  ? "32"
                           : bytes == "8"  ? "64"
                           : bytes == "16" ? "128"
                                           : "";
  const std::string order = descr[0] == '>' ? ", big-endian" : "";
  switch (descr[1]) {
    case 'i':
      return named(bits + "-bit whole numbers" + order);
    case 'u':
      return named(bits + "-bit whole numbers without sign" + order);
    case 'f':
      return named(bits + "-bit real numbers" + order);
    case 'c':
      return named("complex numbers");
    case 'b':
      return named("bool");
    case 'O':
      return named("Python objects");
    case 'U':
    case 'S':
      return named("texts");
    case 'M':
    case 'm':
      return named("times");
    case 'V':
      return named("raw bytes");
    default:
      return fmt::format("'{}'", descr);
  }
}

NpyHeader parse_npy_header(std::span<const std::byte> bytes, const std::filesystem::path& path) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!text.starts_with(npy_magic.substr(0, text.size()))) {
    const std::string kind = kind_of_content(bytes);
    throw IoError("npy", path,
                  "does not begin with \\x93NUMPY: " + (kind.empty() ? "it is not a .npy file" : kind));
  }
  if (text.size() < 10)
    throw IoError("npy", path,
                  fmt::format("is truncated: it has {}, too few for a header", plural(text.size(), "byte")));
  const auto byte = [&](std::size_t i) { return std::size_t{static_cast<unsigned char>(text[i])}; };
  const std::size_t major = byte(6);
  if (major < 1 || major > 3)
    throw IoError("npy", path, fmt::format("has format version {}; 1 to 3 are read", major));
  const std::size_t prefix = major == 1 ? 10 : 12;
  if (text.size() < prefix) throw IoError("npy", path, "is truncated within its header");
  std::size_t length = byte(8) | (byte(9) << 8);
  if (major > 1) length |= (byte(10) << 16) | (byte(11) << 24);
  if (length > max_npy_header)
    throw IoError("npy", path, fmt::format("has a header of {} bytes, more than {}", length, max_npy_header));
  if (text.size() - prefix < length)
    throw IoError(
        "npy", path,
        fmt::format("is truncated: it has {} of the {} bytes of its header", text.size() - prefix, length));
  NpyHeader header = Parser(text.substr(prefix, length), path).parse();
  header.offset = prefix + length;
  return header;
}

namespace {

static_assert(std::endian::native == std::endian::little, "files are little-endian and read in place");

struct Header {
  TensorType type;
  std::size_t offset = 0;  // of the data
};

// If the product overflows, it cannot be the size of a file.
std::uint64_t checked_bytes(const TensorType& type, const std::filesystem::path& path) {
  std::uint64_t bytes = static_cast<std::uint64_t>(size_of(type.dtype));
  bool empty = false;
  for (const std::int64_t extent : type.shape) {
    if (extent == 0) {
      empty = true;
    } else if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(extent), &bytes) ||
               bytes > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      throw IoError("npy", path, "the shape in the header is too large");
    }
  }
  return empty ? 0 : bytes;
}

DType dtype_of(const std::string& name, const std::filesystem::path& path) {
  if (name == "<f4") return DType::f32;
  if (name == "<f8") return DType::f64;
  if (name == "<i4") return DType::i32;
  if (name == "|u1" || name == "<u1") return DType::u8;
  throw IoError(
      "npy", path,
      fmt::format("holds elements {}; only '<f4', '<f8', '<i4' and '|u1' are read", npy_type_text(name)));
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
      throw IoError("npy", path, fmt::format("the .npy format cannot store {}", to_string(dtype)));
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
