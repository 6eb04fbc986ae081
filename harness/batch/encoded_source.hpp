// Images that are decoded when they are read: a manifest of kind "encoded".
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "harness/batch/source.hpp"

namespace assay {

// Decoding of JPEG files, by libjpeg-turbo.

// Rows of pixels of red, green and blue.
struct RgbImage {
  std::int64_t width = 0, height = 0;
  std::vector<std::uint8_t> pixels;  // (height, width, 3)
};

// Reads only the header: width and height; `pixels` stays empty. Throws IoError as decode_jpeg does.
RgbImage read_jpeg_size(std::span<const std::byte> bytes, const std::filesystem::path& path);

// Decodes with the exact integer transform (JDCT_ISLOW) and smooth upsampling, so that the result does not
// depend on the processor. Converts grey and CMYK (as Adobe stores it) to RGB. Reuses `image`. Throws IoError
// naming `path` if the data are not a JPEG, are damaged or truncated (also if libjpeg only warns, unless no
// pixel depends on it: up to 64 bytes before a marker, or an unknown version), or have more than 89 million
// pixels.
void decode_jpeg(std::span<const std::byte> bytes, const std::filesystem::path& path, RgbImage& image);

// Makes a sample of (3, H, W). Scales the image so that its shorter side is `resize` pixels and its longer
// side is in proportion (rounded). Takes the middle (offsets rounded down), moved by the row's dx and dy, and
// mirrors it if the row says so. Pixel centres are at halves; a value between four pixels is their weighted
// mean (bilinear, weights in 256ths, all in whole numbers); nothing is smoothed before. Pixels outside of the
// image are raw zero. out: u8 (3, H, W).
void cut_out(const RgbImage& image, std::int64_t resize, std::int64_t height, std::int64_t width,
             const PlanRow& row, std::span<std::uint8_t> out);

// A split of an encoded set. Opening it checks the labels and that every file exists; reading throws IoError
// with the path of a file that cannot be decoded.
std::unique_ptr<Source> open_encoded(const Manifest& manifest, const Split& split,
                                     std::shared_ptr<const MappedNpy> labels);

}  // namespace assay
