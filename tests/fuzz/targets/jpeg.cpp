#include <array>

#include "harness/batch/encoded_source.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace assay::fuzz::of_jpeg {
namespace {

// Larger images take their time and show nothing new.
constexpr std::int64_t max_pixels = 1 << 16;

const Registration here("jpeg", [](Input input) {
  const std::filesystem::path path = "fuzz";
  const RgbImage size = read_jpeg_size(input, path);
  require(size.width > 0 && size.height > 0, "an image has pixels");
  if (size.width * size.height > max_pixels) return;
  RgbImage image;
  decode_jpeg(input, path, image);
  require(image.pixels.size() == static_cast<std::size_t>(3 * image.width * image.height),
          "three bytes a pixel");
  std::array<std::uint8_t, 3 * 9 * 7> cut{};
  cut_out(image, 11, 9, 7, {0, 3, -2, 1}, cut);
});

}  // namespace
}  // namespace assay::fuzz::of_jpeg
