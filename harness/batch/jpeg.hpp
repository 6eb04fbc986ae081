// JPEG files to bytes, by libjpeg-turbo.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

namespace assay {

// Rows of pixels of red, green and blue.
struct RgbImage {
  std::int64_t width = 0, height = 0;
  std::vector<std::uint8_t> pixels;  // (height, width, 3)
};

// The header alone: width and height, `pixels` empty. Throws IoError as decode_jpeg does.
RgbImage read_jpeg_size(std::span<const std::byte> bytes, const std::filesystem::path& path);

// Decodes with the exact integer transform (JDCT_ISLOW) and smooth upsampling, whose results do not depend on
// the processor. Grey becomes RGB; so does CMYK, as Adobe stores it. `image` is reused. Throws IoError naming
// `path` for what is no JPEG, is damaged or truncated (also where libjpeg only warns), or has more than 2^28
// pixels.
void decode_jpeg(std::span<const std::byte> bytes, const std::filesystem::path& path, RgbImage& image);

}  // namespace assay
