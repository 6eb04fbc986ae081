#include "harness/batch/encoded_source.hpp"

#include <array>
#include <csetjmp>
#include <cstdio>
#include <string>

#include <jpeglib.h>  // after cstdio
//
#include <jerror.h>

#include <fmt/format.h>

#include "harness/core/error.hpp"
#include "harness/core/io/file.hpp"

namespace assay {
namespace {

// Above it, Pillow warns of a decompression bomb.
constexpr std::int64_t max_pixels = 89'478'485;
// More bytes than that before a marker are not padding: the decoder lost its place.
constexpr int max_padding = 64;

// An exception must not pass through libjpeg's C code: an error jumps back to its caller.
struct Errors {
  jpeg_error_mgr manager;  // the first member: libjpeg returns a pointer to it
  std::jmp_buf back;
  std::array<char, JMSG_LENGTH_MAX> text;
};

[[noreturn]] void jump_back(j_common_ptr info) {
  auto* const errors = reinterpret_cast<Errors*>(info->err);
  info->err->format_message(info, errors->text.data());
  std::longjmp(errors->back, 1);
}

// A warning means that the data are damaged: treat it as an error, unless no pixel depends on it.
void note(j_common_ptr info, int level) {
  if (level >= 0) return;
  switch (info->err->msg_code) {
    case JWRN_EXTRANEOUS_DATA:
      if (info->err->msg_parm.i[0] <= max_padding) return;
      break;
    case JWRN_JFIF_MAJOR:
    case JWRN_ADOBE_XFORM:
    case JWRN_BOGUS_ICC:
      return;
    default:
      break;
  }
  jump_back(info);
}

class JpegDecoder {
 public:
  JpegDecoder(std::span<const std::byte> bytes, const std::filesystem::path& path)
      : bytes_(bytes), path_(path) {
    info_.err = jpeg_std_error(&errors_.manager);
    errors_.manager.error_exit = jump_back;
    errors_.manager.emit_message = note;
  }
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;
  ~JpegDecoder() { jpeg_destroy_decompress(&info_); }

  void read(RgbImage& image, bool pixels) {
    if (bytes_.size() < 4 || bytes_[0] != std::byte{0xff} || bytes_[1] != std::byte{0xd8}) throw not_a_jpeg();
    if (!header()) fail();
    image.width = info_.image_width;
    image.height = info_.image_height;
    if (image.width * image.height > max_pixels)
      throw IoError("jpeg", path_,
                    fmt::format("has {} by {} pixels; at most {} are decoded: make it smaller, or remove it",
                                image.width, image.height, max_pixels));
    if (!pixels) return;
    const bool cmyk = info_.jpeg_color_space == JCS_CMYK || info_.jpeg_color_space == JCS_YCCK;
    const auto width = static_cast<std::size_t>(image.width);
    image.pixels.resize(width * static_cast<std::size_t>(image.height) * 3);
    if (cmyk) line_.resize(width * 4);
    if (!begin(cmyk)) fail();
    for (std::size_t y = 0; y < static_cast<std::size_t>(image.height); ++y) {
      std::uint8_t* const out = image.pixels.data() + y * width * 3;
      if (!scan(cmyk ? line_.data() : out)) fail();
      if (cmyk) to_rgb(out);
    }
    if (!finish()) fail();
  }

 private:
  IoError not_a_jpeg() const {
    if (bytes_.empty()) return {"jpeg", path_, "is empty; get the file again"};
    const std::string kind = kind_of_content(bytes_);
    return {"jpeg", path_,
            kind.empty() ? "does not begin with ff d8: it is not a JPEG; convert it or remove it"
                         : "is not a JPEG: " + kind};
  }
  [[noreturn]] void fail() const {
    throw IoError("jpeg", path_, fmt::format("is damaged: {}", errors_.text.data()));
  }

  // Each returns false after an error. They must not have local objects with destructors.
  bool header() {
    if (setjmp(errors_.back) != 0) return false;
    jpeg_create_decompress(&info_);
    jpeg_mem_src(&info_, reinterpret_cast<const unsigned char*>(bytes_.data()), bytes_.size());
    jpeg_read_header(&info_, TRUE);
    return true;
  }
  bool begin(bool cmyk) {
    if (setjmp(errors_.back) != 0) return false;
    info_.out_color_space = cmyk ? JCS_CMYK : JCS_RGB;
    info_.dct_method = JDCT_ISLOW;
    info_.do_fancy_upsampling = TRUE;
    jpeg_start_decompress(&info_);
    return true;
  }
  bool scan(std::uint8_t* row) {
    if (setjmp(errors_.back) != 0) return false;
    jpeg_read_scanlines(&info_, &row, 1);
    return true;
  }
  bool finish() {
    if (setjmp(errors_.back) != 0) return false;
    jpeg_finish_decompress(&info_);
    return true;
  }
  // Adobe stores CMYK inverted.
  void to_rgb(std::uint8_t* out) const {
    for (std::size_t i = 0; i < line_.size(); i += 4, out += 3)
      for (std::size_t c = 0; c < 3; ++c)
        out[c] = static_cast<std::uint8_t>((line_[i + c] * line_[i + 3] + 127) / 255);
  }

  std::span<const std::byte> bytes_;
  const std::filesystem::path& path_;
  jpeg_decompress_struct info_ = {};
  Errors errors_ = {};
  std::vector<std::uint8_t> line_;
};

}  // namespace

RgbImage read_jpeg_size(std::span<const std::byte> bytes, const std::filesystem::path& path) {
  RgbImage image;
  JpegDecoder(bytes, path).read(image, false);
  return image;
}

void decode_jpeg(std::span<const std::byte> bytes, const std::filesystem::path& path, RgbImage& image) {
  JpegDecoder(bytes, path).read(image, true);
}

}  // namespace assay
