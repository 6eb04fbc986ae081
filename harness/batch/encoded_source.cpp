#include "harness/batch/encoded_source.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "harness/core/error.hpp"
#include "harness/core/io/file.hpp"

namespace assay {
namespace {

constexpr std::uint64_t max_list_bytes = std::uint64_t{1} << 30;
constexpr std::int64_t one = 1 << 16;  // a pixel, in fixed point

// The position of a scaled image's pixel in the original image, along one side.
struct Place {
  std::int64_t low = -1, high = -1;  // -1: outside
  std::uint32_t weight = 0;          // of high, in 256ths
};

std::vector<Place> places(std::int64_t count, std::int64_t offset, std::int64_t scaled,
                          std::int64_t true_size, bool mirrored) {
  std::vector<Place> all(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t at = offset + (mirrored ? count - 1 - i : i);
    if (at < 0 || at >= scaled) continue;
    const std::int64_t centre = (2 * at + 1) * true_size * (one / 2) / scaled - one / 2;
    const std::int64_t inside = std::clamp<std::int64_t>(centre, 0, (true_size - 1) * one);
    Place& place = all[static_cast<std::size_t>(i)];
    place.low = inside / one;
    place.high = std::min(place.low + 1, true_size - 1);
    place.weight = static_cast<std::uint32_t>(inside % one) >> 8;
  }
  return all;
}

class EncodedSource : public Source {
 public:
  EncodedSource(const Manifest& manifest, const Split& split, std::shared_ptr<const MappedNpy> labels)
      : resize_(manifest.resize),
        height_(manifest.sample_shape[1]),
        width_(manifest.sample_shape[2]),
        labels_(std::move(labels)),
        first_(split.first) {
    for (std::size_t c = 0; c < 3; ++c) {
      scale_[c] = manifest.normalisation.scale[manifest.normalisation.scale.size() == 1 ? 0 : c];
      shift_[c] = manifest.normalisation.shift[manifest.normalisation.shift.size() == 1 ? 0 : c];
    }
    read_list(split);
  }

  std::int64_t samples() const override { return static_cast<std::int64_t>(files_.size()); }

  std::int32_t label(std::int64_t sample) const override {
    const auto row = static_cast<std::size_t>(first_ + sample);
    return labels_->type().dtype == DType::u8 ? labels_->as<std::uint8_t>()[row]
                                              : labels_->as<std::int32_t>()[row];
  }

  void read(const PlanRow& row, void* inputs) const override {
    auto* out = static_cast<float*>(inputs);
    const std::filesystem::path& file = files_[static_cast<std::size_t>(row.sample)];
    thread_local RgbImage image;  // reused for every image: it has megabytes
    thread_local std::vector<std::uint8_t> cut;
    decode_jpeg(MappedFile(file).bytes(), file, image);
    const auto plane = static_cast<std::size_t>(height_ * width_);
    cut.resize(3 * plane);
    cut_out(image, resize_, height_, width_, row, cut);
    for (std::size_t c = 0; c < 3; ++c)
      for (std::size_t i = 0; i < plane; ++i)
        *out++ = static_cast<float>(cut[c * plane + i]) * scale_[c] + shift_[c];
  }

 private:
  // One path on each line, relative to the first line of the list.
  void read_list(const Split& split) {
    const std::string text = read_text(split.inputs, max_list_bytes);
    std::vector<std::string_view> lines;
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = std::min(text.find('\n', begin), text.size());
      lines.push_back(std::string_view(text).substr(begin, end - begin));
      begin = end + 1;
    }
    if (static_cast<std::int64_t>(lines.size()) < 1 + split.first + split.count)
      throw IoError("source", split.inputs,
                    fmt::format("lists {} files, the split is {} to {}", lines.size(), split.first,
                                split.first + split.count));
    const std::filesystem::path folder(lines.front());
    for (std::int64_t i = 0; i < split.count; ++i) {
      files_.push_back(folder / lines[static_cast<std::size_t>(1 + split.first + i)]);
      std::error_code ignored;
      if (!std::filesystem::is_regular_file(files_.back(), ignored))
        throw IoError("source", files_.back(), "does not exist any more");
    }
  }

  std::int64_t resize_, height_, width_;
  std::shared_ptr<const MappedNpy> labels_;
  std::int64_t first_;
  std::array<float, 3> scale_ = {}, shift_ = {};
  std::vector<std::filesystem::path> files_;
};

}  // namespace

void cut_out(const RgbImage& image, std::int64_t resize, std::int64_t height, std::int64_t width,
             const PlanRow& row, std::span<std::uint8_t> out) {
  const std::int64_t shorter = std::min(image.width, image.height);
  const auto scaled = [&](std::int64_t side) { return (side * resize + shorter / 2) / shorter; };
  const std::int64_t scaled_width = scaled(image.width), scaled_height = scaled(image.height);
  // Also rounds negative numbers down.
  const auto middle = [](std::int64_t all, std::int64_t part) {
    return (all - part) >= 0 ? (all - part) / 2 : -((part - all + 1) / 2);
  };
  const std::vector<Place> columns =
      places(width, middle(scaled_width, width) + row.dx, scaled_width, image.width, row.flip != 0);
  const std::vector<Place> rows =
      places(height, middle(scaled_height, height) + row.dy, scaled_height, image.height, false);
  const auto plane = static_cast<std::size_t>(height * width);
  std::uint8_t* target = out.data();
  for (const Place& y : rows)
    for (const Place& x : columns) {
      const bool outside = y.low < 0 || x.low < 0;
      for (std::size_t c = 0; c < 3; ++c) {
        std::uint32_t value = 0;
        if (!outside) {
          const auto at = [&](std::int64_t yy, std::int64_t xx) -> std::uint32_t {
            return image.pixels[static_cast<std::size_t>((yy * image.width + xx) * 3) + c];
          };
          const std::uint32_t top = at(y.low, x.low) * (256 - x.weight) + at(y.low, x.high) * x.weight;
          const std::uint32_t bottom = at(y.high, x.low) * (256 - x.weight) + at(y.high, x.high) * x.weight;
          value = (top * (256 - y.weight) + bottom * y.weight + (1u << 15)) >> 16;
        }
        target[c * plane] = static_cast<std::uint8_t>(value);
      }
      ++target;
    }
}

std::unique_ptr<Source> open_encoded(const Manifest& manifest, const Split& split,
                                     std::shared_ptr<const MappedNpy> labels) {
  return std::make_unique<EncodedSource>(manifest, split, std::move(labels));
}

}  // namespace assay
