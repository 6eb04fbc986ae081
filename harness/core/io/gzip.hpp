// Gzip data in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <vector>

namespace assay {

// Whether the bytes start with gzip's magic number.
bool is_gzip(std::span<const std::byte> bytes);

// The content of gzip data, with the same errors and limits as read_gzip_or_plain; `path` names it in errors.
std::vector<std::byte> inflated(std::span<const std::byte> packed, const std::filesystem::path& path,
                                std::uint64_t limit,
                                const std::function<std::uint64_t(std::span<const std::byte>)>& whole = {});

// Only the first `count` bytes of the content, or fewer if it is shorter or the data are truncated. Throws IoError if
// they are corrupt.
std::vector<std::byte> inflated_start(std::span<const std::byte> packed, const std::filesystem::path& path,
                                      std::size_t count);

std::vector<std::byte> deflated(std::span<const std::byte> bytes, const std::filesystem::path& path);

}  // namespace assay
