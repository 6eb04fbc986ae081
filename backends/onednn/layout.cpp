#include "backends/onednn/layout.hpp"

#include <fmt/format.h>

#include <array>
#include <cassert>

#include "harness/worker/backend.hpp"

namespace assay::onednn {
namespace {

constexpr std::array<std::pair<Tag, const char*>, 4> named_tags{
    {{Tag::nchw, "nchw"}, {Tag::nhwc, "nhwc"}, {Tag::nChw16c, "nChw16c"}, {Tag::nChw8c, "nChw8c"}}};

const char* name(Tag tag) {
  for (const auto& [known, text] : named_tags) {
    if (known == tag) return text;
  }
  return "plain";
}

// Strides of dimensions of size 1 have no effect: two descriptors that differ only there are the same
// layout.
std::string key_of(const Desc& desc) {
  const auto dims = desc.get_dims();
  const auto padded = desc.get_padded_dims();
  const auto strides = desc.get_strides();
  const auto blocks = desc.get_inner_blks();
  const auto axes = desc.get_inner_idxs();
  std::string key = fmt::format("{}", static_cast<int>(desc.get_data_type()));
  for (std::size_t i = 0; i < dims.size(); ++i) {
    key += padded[i] == 1 ? " 1" : fmt::format(" {}/{}:{}", dims[i], padded[i], strides[i]);
  }
  for (std::size_t i = 0; i < blocks.size(); ++i) key += fmt::format(" {}b{}", blocks[i], axes[i]);
  return key;
}

}  // namespace

Format to_format(const Desc& desc, const Image& image) {
  Format format;
  format.key = key_of(desc);
  if (image.permuted()) {
    format.key += fmt::format(" of {} {}x{}x{}", name(image.tag), image.channels, image.height, image.width);
  }
  format.bytes = static_cast<std::int64_t>(desc.get_size());
  format.detail = std::make_shared<const Layout>(Layout{desc, image});
  return format;
}

const Layout& layout_of(const Format& format) {
  assert(format.detail != nullptr);
  return *static_cast<const Layout*>(format.detail.get());
}

Format opaque_format(std::int64_t bytes, const Desc& made_with) {
  return {fmt::format("opaque {} of {}", bytes, key_of(made_with)), bytes,
          std::make_shared<const Layout>(Layout{made_with, {}})};
}

dnnl::memory::data_type to_dnnl(DType dtype) {
  using Type = dnnl::memory::data_type;
  switch (dtype) {
    case DType::f32:
      return Type::f32;
    case DType::bf16:
      return Type::bf16;
    case DType::i32:
      return Type::s32;
    case DType::u8:
      return Type::u8;
    case DType::f64:
      break;
  }
  throw Unsupported("[onednn] got f64: oneDNN has no double-precision kernels for CPUs");
}

dnnl::memory::dims to_dims(const Shape& shape) {
  return shape.empty() ? dnnl::memory::dims{1} : dnnl::memory::dims(shape.begin(), shape.end());
}

Desc row_major(const TensorType& type) {
  dnnl::memory::dims dims = to_dims(type.shape);
  dnnl::memory::dims strides(dims.size(), 1);
  for (std::size_t i = dims.size() - 1; i > 0; --i) strides[i - 1] = strides[i] * dims[i];
  return {dims, to_dnnl(type.dtype), strides};
}

Desc with_tag(const TensorType& type, Tag tag) { return {to_dims(type.shape), to_dnnl(type.dtype), tag}; }
Desc any_of(const TensorType& type) { return with_tag(type, Tag::any); }

Desc like(const Desc& desc, const Desc& other) {
  return desc.get_ndims() < other.get_ndims() ? ASSAY_ONEDNN(desc.reshape(other.get_dims())) : desc;
}

Tag image_tag(const Desc& desc) {
  if (desc.get_ndims() != 4) return Tag::undef;
  for (const auto& [tag, text] : named_tags) {
    if (key_of(desc) == key_of({desc.get_dims(), desc.get_data_type(), tag})) return tag;
  }
  return Tag::undef;
}

Tag dense_image_tag(const Desc& desc) {
  return desc.get_dims() == desc.get_padded_dims() ? image_tag(desc) : Tag::undef;
}

}  // namespace assay::onednn
