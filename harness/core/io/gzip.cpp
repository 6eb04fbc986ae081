#include "harness/core/io/gzip.hpp"

#include <algorithm>
#include <climits>

#include <fmt/format.h>
#include <zlib.h>

#include "harness/core/error.hpp"

namespace assay {
namespace {

constexpr int gzip_window = 15 + 16;  // the largest window, only gzip framing

struct Inflater {
  z_stream stream = {};
  Inflater() = default;
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  ~Inflater() { inflateEnd(&stream); }
};

}  // namespace

bool is_gzip(std::span<const std::byte> bytes) {
  return bytes.size() >= 2 && bytes[0] == std::byte{0x1f} && bytes[1] == std::byte{0x8b};
}

std::vector<std::byte> inflated(std::span<const std::byte> packed, const std::filesystem::path& path,
                                std::uint64_t limit,
                                const std::function<std::uint64_t(std::span<const std::byte>)>& whole) {
  constexpr std::size_t first_bytes = 64;
  Inflater inflater;
  z_stream& stream = inflater.stream;
  if (inflateInit2(&stream, gzip_window) != Z_OK) throw IoError("gzip", path, "zlib cannot be initialised");
  std::vector<std::byte> bytes(4096);
  std::size_t in = 0;
  std::size_t out = 0;
  bool is_known = !whole;
  while (true) {
    if (!is_known && out >= first_bytes) {
      is_known = true;
      limit = std::min(limit, whole(std::span(bytes).first(first_bytes)));
    }
    if (out > limit) throw IoError("gzip", path, fmt::format("inflates to more than {} bytes", limit));
    if (out == bytes.size()) bytes.resize(bytes.size() * 2);
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(packed.data() + in));
    stream.avail_in = static_cast<uInt>(std::min<std::size_t>(packed.size() - in, INT_MAX));
    stream.next_out = reinterpret_cast<Bytef*>(bytes.data() + out);
    stream.avail_out = static_cast<uInt>(std::min<std::size_t>(bytes.size() - out, INT_MAX));
    const uInt offered_in = stream.avail_in;
    const uInt offered_out = stream.avail_out;
    const int status = inflate(&stream, Z_NO_FLUSH);
    in += offered_in - stream.avail_in;
    out += offered_out - stream.avail_out;
    if (status == Z_STREAM_END) {
      // Tapes and block devices pad with zeros; gzip ignores them, too.
      while (in < packed.size() && packed[in] == std::byte{0}) ++in;
      if (in == packed.size()) break;
      if (!is_gzip(packed.subspan(in)))
        throw IoError(
            "gzip", path,
            fmt::format("is corrupt: {} bytes after the end are not gzip data", packed.size() - in));
      inflateReset(&stream);
    } else if (status == Z_BUF_ERROR || (status == Z_OK && in == packed.size() && out < bytes.size())) {
      throw IoError("gzip", path,
                    fmt::format("is truncated: the compressed data ends after {} bytes; fetch the file again",
                                packed.size()));
    } else if (status != Z_OK) {
      throw IoError("gzip", path,
                    fmt::format("is corrupt near byte {}: {}; fetch the file again", in,
                                stream.msg != nullptr ? stream.msg : "bad data"));
    }
  }
  if (out > limit) throw IoError("gzip", path, fmt::format("inflates to more than {} bytes", limit));
  bytes.resize(out);
  return bytes;
}

std::vector<std::byte> inflated_start(std::span<const std::byte> packed, const std::filesystem::path& path,
                                      std::size_t count) {
  Inflater inflater;
  z_stream& stream = inflater.stream;
  if (inflateInit2(&stream, gzip_window) != Z_OK) throw IoError("gzip", path, "zlib cannot be initialised");
  std::vector<std::byte> bytes(count);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(packed.data()));
  stream.avail_in = static_cast<uInt>(std::min<std::size_t>(packed.size(), INT_MAX));
  stream.next_out = reinterpret_cast<Bytef*>(bytes.data());
  stream.avail_out = static_cast<uInt>(count);
  const int status = inflate(&stream, Z_SYNC_FLUSH);
  if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR)
    throw IoError(
        "gzip", path,
        fmt::format("is corrupt near byte {}: {}; fetch the file again", packed.size() - stream.avail_in,
                    stream.msg != nullptr ? stream.msg : "bad data"));
  bytes.resize(count - stream.avail_out);
  return bytes;
}

std::vector<std::byte> deflated(std::span<const std::byte> bytes, const std::filesystem::path& path) {
  z_stream stream = {};
  if (deflateInit2(&stream, 6, Z_DEFLATED, gzip_window, 8, Z_DEFAULT_STRATEGY) != Z_OK)
    throw IoError("gzip", path, "zlib cannot be initialised");
  std::vector<std::byte> packed(deflateBound(&stream, static_cast<uLong>(bytes.size())));
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  const int status = bytes.size() <= INT_MAX ? deflate(&stream, Z_FINISH) : Z_STREAM_ERROR;
  const std::size_t size = stream.total_out;
  deflateEnd(&stream);
  if (status != Z_STREAM_END) throw IoError("gzip", path, "cannot be compressed");
  packed.resize(size);
  return packed;
}

}  // namespace assay
