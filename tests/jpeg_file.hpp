// Small JPEG files for tests and benchmarks.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <jpeglib.h>  // after cstdio

namespace assay {

// pixels: (height, width, components), 1 grey, 3 RGB, 4 CMYK; without loss of colour resolution.
inline std::string jpeg_of(const std::vector<std::uint8_t>& pixels, unsigned width, unsigned height,
                           int components = 3, int quality = 95) {
  jpeg_compress_struct info = {};
  jpeg_error_mgr errors = {};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &bytes, &size);
  info.image_width = width;
  info.image_height = height;
  info.input_components = components;
  info.in_color_space = components == 1 ? JCS_GRAYSCALE : components == 3 ? JCS_RGB : JCS_CMYK;
  jpeg_set_defaults(&info);
  for (int c = 0; c < info.num_components; ++c)
    info.comp_info[c].h_samp_factor = info.comp_info[c].v_samp_factor = 1;
  jpeg_set_quality(&info, quality, TRUE);
  jpeg_start_compress(&info, TRUE);
  const std::size_t line = std::size_t{width} * static_cast<std::size_t>(components);
  for (unsigned y = 0; y < height; ++y) {
    auto* row = const_cast<std::uint8_t*>(pixels.data() + y * line);
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  const std::string text(reinterpret_cast<char*>(bytes), size);
  std::free(bytes);
  return text;
}

// An image of one colour.
inline std::string plain_jpeg(unsigned width, unsigned height, std::uint8_t red, std::uint8_t green,
                              std::uint8_t blue) {
  std::vector<std::uint8_t> pixels;
  for (unsigned i = 0; i < width * height; ++i) pixels.insert(pixels.end(), {red, green, blue});
  return jpeg_of(pixels, width, height);
}

}  // namespace assay
