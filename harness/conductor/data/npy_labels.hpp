// Labels in whatever whole numbers numpy saved them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

namespace assay {

// The content of a .npy file of bool, i8, u8, i32 or i64 (N). Throws IoError naming `path`: another type or
// shape, a truncated file, a number that is no i32.
std::vector<std::int32_t> read_npy_labels(std::span<const std::byte> npy, const std::filesystem::path& path);

}  // namespace assay
