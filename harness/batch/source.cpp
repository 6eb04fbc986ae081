#include "harness/batch/source.hpp"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "harness/batch/encoded_source.hpp"
#include "harness/core/error.hpp"

namespace assay {
namespace {

// Arrays mapped from .npy files: u8, f32 or i32 inputs, u8 or i32 labels.
class ArraySource : public Source {
 public:
  ArraySource(const Manifest& manifest, const Split& split, std::shared_ptr<const MappedNpy> inputs,
              std::shared_ptr<const MappedNpy> labels)
      : inputs_(std::move(inputs)), labels_(std::move(labels)), first_(split.first), count_(split.count) {
    channels_ = manifest.sample_shape.front();
    per_channel_ = element_count(manifest.sample_shape) / channels_;
    if (manifest.sample_shape.size() == 3) {
      height_ = manifest.sample_shape[1];
      width_ = manifest.sample_shape[2];
    }
    for (std::int64_t c = 0; c < channels_; ++c) {
      scale_.push_back(
          manifest.normalisation
              .scale[manifest.normalisation.scale.size() == 1 ? 0 : static_cast<std::size_t>(c)]);
      shift_.push_back(
          manifest.normalisation
              .shift[manifest.normalisation.shift.size() == 1 ? 0 : static_cast<std::size_t>(c)]);
    }
    as_is_ = manifest.normalisation == Normalisation{};
    positions_ = manifest.positions;
  }

  std::int64_t samples() const override { return count_; }

  std::int32_t label(std::int64_t sample) const override {
    const auto row = static_cast<std::size_t>(first_ + sample);
    return labels_->type().dtype == DType::u8 ? labels_->as<std::uint8_t>()[row]
                                              : labels_->as<std::int32_t>()[row];
  }

  void labels(std::int64_t sample, std::int32_t* out) const override {
    if (positions_ == 0) {
      *out = label(sample);
      return;
    }
    const std::span<const std::int32_t> all = labels_->as<std::int32_t>();
    std::copy_n(all.begin() + (first_ + sample) * positions_, positions_, out);
  }

  void read(const PlanRow& row, void* inputs) const override {
    const auto elements = static_cast<std::size_t>(channels_ * per_channel_);
    const std::size_t begin = static_cast<std::size_t>(first_ + row.sample) * elements;
    auto* const out = static_cast<float*>(inputs);
    if (inputs_->type().dtype == DType::i32) {
      std::memcpy(inputs, inputs_->as<std::int32_t>().data() + begin, elements * sizeof(std::int32_t));
    } else if (!row.as_is()) {
      if (inputs_->type().dtype == DType::u8)
        crop(inputs_->as<std::uint8_t>().data() + begin, row, out);
      else
        crop(inputs_->as<float>().data() + begin, row, out);
    } else if (inputs_->type().dtype == DType::u8) {
      normalise(inputs_->as<std::uint8_t>().data() + begin, out);
    } else if (as_is_) {
      std::memcpy(out, inputs_->as<float>().data() + begin, elements * sizeof(float));
    } else {
      normalise(inputs_->as<float>().data() + begin, out);
    }
  }

 private:
  template <typename T>
  void normalise(const T* raw, float* out) const {
    for (std::int64_t c = 0; c < channels_; ++c) {
      const float scale = scale_[static_cast<std::size_t>(c)];
      const float shift = shift_[static_cast<std::size_t>(c)];
      for (std::int64_t i = 0; i < per_channel_; ++i) out[i] = static_cast<float>(raw[i]) * scale + shift;
      raw += per_channel_;
      out += per_channel_;
    }
  }

  // Like normalise(), for the part of the image that the row selects.
  template <typename T>
  void crop(const T* raw, const PlanRow& row, float* out) const {
    const std::int64_t begin = std::max<std::int64_t>(0, -row.dx), end = std::min(width_, width_ - row.dx);
    for (std::int64_t c = 0; c < channels_; ++c, raw += per_channel_) {
      const float scale = scale_[static_cast<std::size_t>(c)];
      const float shift = shift_[static_cast<std::size_t>(c)];
      for (std::int64_t y = 0; y < height_; ++y, out += width_) {
        const std::int64_t from = y + row.dy;
        std::fill(out, out + width_, shift);
        if (from < 0 || from >= height_) continue;
        const T* const line = raw + from * width_ + row.dx;
        float* const target = row.flip != 0 ? out + width_ - 1 : out;
        const std::int64_t stride = row.flip != 0 ? -1 : 1;
        for (std::int64_t x = begin; x < end; ++x)
          target[x * stride] = static_cast<float>(line[x]) * scale + shift;
      }
    }
  }

  std::shared_ptr<const MappedNpy> inputs_, labels_;
  std::int64_t first_, count_;
  std::int64_t channels_ = 0, per_channel_ = 0;
  std::int64_t height_ = 1, width_ = 1;  // for images
  std::int64_t positions_ = 0;           // labels of a sample; 0: one
  std::vector<float> scale_, shift_;
  bool as_is_ = false;
};

bool fits(DType dtype, const Manifest& manifest) {
  if (manifest.tokens()) return dtype == DType::i32;
  return dtype == DType::u8 || dtype == DType::f32;
}

void check_tokens(const MappedNpy& inputs, const Manifest& manifest, const Split& split) {
  const auto row = static_cast<std::size_t>(element_count(manifest.sample_shape));
  const std::span<const std::int32_t> tokens = inputs.as<std::int32_t>().subspan(
      static_cast<std::size_t>(split.first) * row, static_cast<std::size_t>(split.count) * row);
  const auto bad = std::find_if(tokens.begin(), tokens.end(), [&](std::int32_t token) {
    return token < 0 || token >= manifest.vocabulary;
  });
  if (bad == tokens.end()) return;
  const auto place = static_cast<std::size_t>(bad - tokens.begin());
  throw IoError("source", split.inputs,
                fmt::format("sample {} has token {} at place {}, but the vocabulary has {}",
                            split.first + static_cast<std::int64_t>(place / row), *bad, place % row,
                            manifest.vocabulary));
}

void check_labels(const TensorType& type, const Manifest& manifest, const Split& split) {
  const auto reject = [&](std::string_view wanted) {
    throw IoError("source", split.labels, fmt::format("is {}, wanted {}", to_string(type), wanted));
  };
  const std::size_t rank = type.shape.size();
  if (manifest.positions > 0) {
    if (type.dtype != DType::i32 || rank != 2 || type.shape[1] != manifest.positions)
      reject(fmt::format("i32 (N, {})", manifest.positions));
  } else if ((type.dtype != DType::u8 && type.dtype != DType::i32) || rank != 1) {
    reject("u8 or i32 (N)");
  }
}

// Every label is a class; at a position it may be -1, which does not count.
void check_classes(const Source& source, const Manifest& manifest, const Split& split) {
  const std::int32_t lowest = manifest.positions > 0 ? -1 : 0;
  std::vector<std::int32_t> labels(static_cast<std::size_t>(manifest.labels_of_sample()));
  for (std::int64_t i = 0; i < source.samples(); ++i) {
    source.labels(i, labels.data());
    const auto bad = std::ranges::find_if(
        labels, [&](std::int32_t label) { return label < lowest || label >= manifest.classes; });
    if (bad != labels.end())
      throw IoError("source", split.labels,
                    fmt::format("sample {} has label {}, but there are {} classes", split.first + i, *bad,
                                manifest.classes));
  }
}

}  // namespace

std::shared_ptr<const MappedNpy> SourceOpener::map(const std::filesystem::path& path) {
  auto& array = arrays_[path];
  if (!array) array = std::make_shared<MappedNpy>(path);
  return array;
}

std::unique_ptr<Source> SourceOpener::open_array(const std::string& name, const Split& split,
                                                 std::shared_ptr<const MappedNpy> labels) {
  const auto inputs = map(split.inputs);
  const TensorType& type = inputs->type();
  if (!fits(type.dtype, manifest_) || type.shape.size() != manifest_.sample_shape.size() + 1 ||
      !std::equal(manifest_.sample_shape.begin(), manifest_.sample_shape.end(), type.shape.begin() + 1))
    throw IoError("source", split.inputs,
                  fmt::format("is {}, wanted {} (N, sample {})", to_string(type),
                              manifest_.tokens() ? "i32" : "u8 or f32", to_string(manifest_.sample_shape)));
  if (split.first + split.count > type.shape[0])
    throw IoError("source", split.inputs,
                  fmt::format("split '{}' is samples {} to {}, but there are {} inputs", name, split.first,
                              split.first + split.count, type.shape[0]));
  if (manifest_.tokens()) check_tokens(*inputs, manifest_, split);
  return std::make_unique<ArraySource>(manifest_, split, inputs, std::move(labels));
}

std::unique_ptr<Source> SourceOpener::open(const std::string& name) {
  const auto found = manifest_.splits.find(name);
  if (found == manifest_.splits.end())
    throw IoError("manifest", "data/manifest.json",
                  fmt::format("data set {} has no split '{}'", manifest_.name, name));
  const Split& split = found->second;
  const auto labels = map(split.labels);
  check_labels(labels->type(), manifest_, split);
  if (split.first + split.count > labels->type().shape[0])
    throw IoError("source", split.labels,
                  fmt::format("split '{}' is samples {} to {}, but there are {} labels", name, split.first,
                              split.first + split.count, labels->type().shape[0]));
  std::unique_ptr<Source> source = manifest_.kind == StorageKind::encoded
                                       ? open_encoded(manifest_, split, labels)
                                       : open_array(name, split, labels);
  check_classes(*source, manifest_, split);
  return source;
}

}  // namespace assay
