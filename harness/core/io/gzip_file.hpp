// Files that may or may not be compressed with gzip.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

namespace assay {

// The content of a file, inflated when it starts with gzip's magic number (whatever its name). Several
// members are read as one. Throws IoError naming the file: absent, truncated, corrupt, trailing bytes that
// are no gzip, or more than `limit` bytes.
std::vector<std::byte> read_gzip_or_plain(const std::filesystem::path& path,
                                          std::uint64_t limit = std::uint64_t{1} << 34);

// For tests and fixtures.
void write_gzip(const std::filesystem::path& path, std::span<const std::byte> bytes);
inline void write_gzip(const std::filesystem::path& path, std::string_view text) {
  write_gzip(path, std::as_bytes(std::span(text)));
}

}  // namespace assay
