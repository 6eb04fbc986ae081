// Images that are decoded when they are read: `kind` "encoded" of a manifest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "harness/batch/source.hpp"

namespace assay {

// JPEG files to bytes, by libjpeg-turbo.

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

// What a sample of (3, H, W) is cut out of: the image scaled so that its shorter side is `resize` pixels, by
// the longer side in proportion (rounded), of which the middle (offsets rounded down) moved by the row's dx
// and dy is taken, then mirrored where the row says so. Pixel centres lie at halves; between four pixels of
// the image lies a weighted mean (bilinear, weights in 256ths, whole numbers throughout); nothing is smoothed
// before. What lies outside of the image is raw zero. out: u8 (3, H, W).
void cut_out(const RgbImage& image, std::int64_t resize, std::int64_t height, std::int64_t width,
             const PlanRow& row, std::span<std::uint8_t> out);

// A split of an encoded set. Opening checks labels and that every file is there; reading throws IoError with
// the path of a file that cannot be decoded.
std::unique_ptr<Source> open_encoded(const Manifest& manifest, const Split& split,
                                     std::shared_ptr<const MappedNpy> labels);

}  // namespace assay
