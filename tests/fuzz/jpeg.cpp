#include "harness/batch/encoded_source.hpp"
#include "tests/fuzz/fuzz.hpp"

// Larger images take their time and show nothing new.
ASSAY_FUZZ(const assay::RgbImage size = assay::read_jpeg_size(bytes, path);
           if (size.width * size.height > 1 << 16) return; assay::RgbImage image;
           assay::decode_jpeg(bytes, path, image); std::vector<std::uint8_t> cut(3 * 9 * 7);
           assay::cut_out(image, 11, 9, 7, {0, 3, -2, 1}, cut);)
