// The mapping from the library's formats to oneDNN's memory descriptors.
#pragma once

#include <dnnl.hpp>

#include "harness/core/tensor.hpp"
#include "harness/engine/kernel_library.hpp"

namespace assay::onednn {

using Desc = dnnl::memory::desc;
using Tag = dnnl::memory::format_tag;

// The order of the features of a flattened image. Matrix ops work with any order, so a flatten never moves
// data: the weights of the next layer are permuted instead.
struct Image {
  Tag tag = Tag::undef;  // nhwc, nChw16c, ...; undef: row-major, or not an image
  std::int64_t channels = 0, height = 0, width = 0;

  bool permuted() const { return tag != Tag::undef; }
  bool operator==(const Image&) const = default;
};

// The object that Format::detail points to.
struct Layout {
  Desc desc;    // as used by kernels; a matrix of permuted features is an ordinary matrix here
  Image image;  // describes the second dimension
};

Format to_format(const Desc& desc, const Image& image = {});
// Precondition: a decided format of this library that is not opaque.
const Layout& layout_of(const Format& format);
// Storage that only its own kernels read; `made_with` describes the writer for the reader.
Format opaque_format(std::int64_t bytes, const Desc& made_with);

// Throws Unsupported for f64.
dnnl::memory::data_type to_dnnl(DType dtype);
// A scalar is one element in one dimension.
dnnl::memory::dims to_dims(const Shape& shape);
Desc row_major(const TensorType& type);
Desc with_tag(const TensorType& type, Tag tag);
Desc any_of(const TensorType& type);

// In the dimensions of the other if that has more: the weight of a convolution in groups has one more than its tensor,
// whose row-major order is the same in both.
Desc like(const Desc& desc, const Desc& other);

// nchw, nhwc, nChw16c or nChw8c if it is one of them, else undef.
Tag image_tag(const Desc& desc);
// The same, but undef unless the image's bytes are those of a dense matrix (N, C*H*W).
Tag dense_image_tag(const Desc& desc);

}  // namespace assay::onednn
