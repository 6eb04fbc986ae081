#include "backends/cuda/layout.hpp"

namespace assay::cuda {
namespace {

constexpr const char* plain_word = "plain ";
constexpr const char* channels_last_word = "channels last ";

}  // namespace

Format format_of(const TensorType& type, Layout layout) {
  const Shape& shape = type.shape;
  const bool same = shape.size() != 4 || shape[1] == 1 || shape[2] * shape[3] == 1;
  const bool last = layout == Layout::channels_last && !same;
  return {(last ? channels_last_word : plain_word) + to_string(type), type.bytes(), nullptr};
}

Layout layout_of(const Format& format) {
  return format.key.find(channels_last_word) != std::string::npos ? Layout::channels_last : Layout::plain;
}

Format opaque_format(std::int64_t bytes, Layout layout) {
  const bool last = layout == Layout::channels_last;
  return {std::string("opaque ") + (last ? channels_last_word : plain_word), bytes, nullptr};
}

Strides strides_of(const Shape& shape, Layout layout) {
  const std::int64_t channels = shape[1], height = shape[2], width = shape[3];
  if (layout == Layout::plain) return {channels * height * width, height * width, width, 1};
  return {channels * height * width, 1, width * channels, channels};
}

}  // namespace assay::cuda
