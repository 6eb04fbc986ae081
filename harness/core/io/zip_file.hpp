// The members of a zip archive (PKWARE's APPNOTE 6.3), stored or deflated: what numpy's .npz files are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace assay {

// The contents by name. Every member's place, sizes, method and CRC-32 are checked. Throws IoError naming
// `path`: no archive, damaged, encrypted, in several parts, another method, larger than 4 GiB, or more than
// `limit` bytes in all.
std::map<std::string, std::vector<std::byte>> read_zip(std::span<const std::byte> bytes,
                                                       const std::filesystem::path& path,
                                                       std::uint64_t limit = std::uint64_t{1} << 32);

}  // namespace assay
