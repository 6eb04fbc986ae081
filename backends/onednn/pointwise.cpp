// Elementwise ops: ReLU and its gradient, sums and products, cast, constants, creation from arrays and lists, and the
// reshapes that move nothing.
#include <algorithm>
#include <array>
#include <cstring>

#include "backends/onednn/loops/loops.hpp"
#include "backends/onednn/lowering.hpp"
#include "backends/onednn/parallel.hpp"
#include "harness/graph/broadcast.hpp"

namespace assay::onednn {
namespace {

using dnnl::algorithm;

// The format of operand i, or of the result, or a plain one. For kernels that accept any format.
Format follow_format(const Request& request, std::size_t i) {
  if (request.settled(i)) return request.offer.inputs[i];
  if (!request.offer.outputs.empty() && request.offer.outputs[0].decided()) return request.offer.outputs[0];
  return to_format(row_major(request.inputs[i]));
}

Lowered lower_relu(const Request& request) {
  const Format format = follow_format(request, 0);
  const Desc desc = layout_of(format).desc;
  const auto chosen = ASSAY_ONEDNN(
      dnnl::eltwise_forward::primitive_desc(request.context.engine, dnnl::prop_kind::forward_training,
                                            algorithm::eltwise_relu, desc, desc, 0.0F, 0.0F, attributes()));
  Lowered lowered = draft(request);
  lowered.inputs[0] = lowered.outputs[0] = format;
  lowered.in_place = {{0, 0}};
  auto kernel =
      std::make_unique<PrimitiveKernel>(request.context, ASSAY_ONEDNN(dnnl::eltwise_forward(chosen)));
  kernel->input(DNNL_ARG_SRC, desc, 0).output(DNNL_ARG_DST, desc, 0);
  finish(lowered, std::move(kernel), chosen.scratchpad_desc());
  return lowered;
}

// Operands y, dy.
Lowered lower_relu_gradient(const Request& request) {
  const Format format = follow_format(request, 0);
  const Desc desc = layout_of(format).desc;
  const auto hint = ASSAY_ONEDNN(dnnl::eltwise_forward::primitive_desc(
      request.context.engine, dnnl::prop_kind::forward_training, algorithm::eltwise_relu_use_dst_for_bwd,
      desc, desc, 0.0F, 0.0F, attributes()));
  const auto chosen = ASSAY_ONEDNN(
      dnnl::eltwise_backward::primitive_desc(request.context.engine, algorithm::eltwise_relu_use_dst_for_bwd,
                                             desc, desc, desc, 0.0F, 0.0F, hint, attributes()));
  Lowered lowered = draft(request);
  lowered.inputs[0] = lowered.inputs[1] = lowered.outputs[0] = format;
  lowered.in_place = {{0, 1}};
  auto kernel =
      std::make_unique<PrimitiveKernel>(request.context, ASSAY_ONEDNN(dnnl::eltwise_backward(chosen)));
  kernel->input(DNNL_ARG_DST, desc, 0).input(DNNL_ARG_DIFF_DST, desc, 1).output(DNNL_ARG_DIFF_SRC, desc, 0);
  finish(lowered, std::move(kernel), chosen.scratchpad_desc());
  return lowered;
}

constexpr std::array<std::pair<std::string_view, algorithm>, 4> binaries{{{"add", algorithm::binary_add},
                                                                          {"subtract", algorithm::binary_sub},
                                                                          {"multiply", algorithm::binary_mul},
                                                                          {"divide", algorithm::binary_div}}};

algorithm binary_of(const Node& node) {
  return std::ranges::find(binaries, node.op->name(), &std::pair<std::string_view, algorithm>::first)->second;
}

Lowered lower_binary_of(const Request& request, Lowered lowered, const Desc& a, const Desc& b,
                        const Desc& y) {
  const auto chosen = ASSAY_ONEDNN(dnnl::binary::primitive_desc(
      request.context.engine, binary_of(request.node), a, b, y, attributes(request.relu())));
  lowered.in_place = {{0, 0}};
  auto kernel = std::make_unique<PrimitiveKernel>(request.context, ASSAY_ONEDNN(dnnl::binary(chosen)));
  kernel->input(DNNL_ARG_SRC_0, a, 0).input(DNNL_ARG_SRC_1, b, 1).output(DNNL_ARG_DST, y, 0);
  finish(lowered, std::move(kernel), chosen.scratchpad_desc());
  return lowered;
}

// An operand is repeated along some dimensions.
Lowered lower_repeated(const Request& request) {
  const Broadcast walk = broadcast(request.inputs[0].shape, request.inputs[1].shape);
  const DType dtype = request.inputs[0].dtype;
  Lowered lowered =
      lower_binary_of(request, row_major_draft(request), row_major({dtype, walk.shape_of(walk.a)}),
                      row_major({dtype, walk.shape_of(walk.b)}), row_major({dtype, walk.sizes}));
  if (request.inputs[0].elements() != request.outputs[0].elements()) lowered.in_place.clear();
  return lowered;
}

// The same storage as a vector if it has padding, which is zero in every operand and result: oneDNN adds blocked
// tensors with padding element by element.
Desc without_padding(const Desc& desc) {
  if (desc.get_dims() == desc.get_padded_dims()) return desc;
  const std::int64_t width = static_cast<std::int64_t>(dnnl::memory::data_type_size(desc.get_data_type()));
  return ASSAY_ONEDNN(
      Desc({static_cast<std::int64_t>(desc.get_size()) / width}, desc.get_data_type(), Tag::a));
}

Lowered lower_binary(const Request& request) {
  if (request.inputs[0].shape != request.inputs[1].shape) return lower_repeated(request);
  // A quotient would fill the padding of blocked channels with 0 / 0.
  const bool any = binary_of(request.node) != algorithm::binary_div;
  const std::size_t leading = request.settled(0) ? 0 : 1;
  const Format format = any ? follow_format(request, leading) : dense_format(request, leading);
  const Desc desc = without_padding(layout_of(format).desc);
  Lowered lowered = draft(request);
  lowered.inputs[0] = lowered.inputs[1] = lowered.outputs[0] = format;
  return lower_binary_of(request, std::move(lowered), desc, desc, desc);
}

// A tag has the same meaning in another type; a format that is not an image stays row-major.
Desc retyped(const Desc& desc, const TensorType& type) {
  const Tag tag = image_tag(desc);
  return tag == Tag::undef ? row_major(type) : with_tag(type, tag);
}

// One reorder does both: the conversion, and the change of format if the reader requested one.
Lowered lower_cast(const Request& request) {
  Lowered lowered = draft(request);
  const bool reader = request.offer.outputs[0].decided() && !request.offer.plain;
  const bool writer = request.settled(0);
  Desc from = writer ? request.input_desc(0) : row_major(request.inputs[0]);
  Image image = writer ? request.input_image(0) : Image{};
  Desc to;
  if (reader) {
    to = request.output_desc(0);
    if (!writer) {  // a master copy in its reader's order of features
      image = request.output_image(0);
    } else if (image != request.output_image(0)) {  // the executor reorders after this
      to = retyped(from, request.outputs[0]);
    }
  } else {
    to = retyped(from, request.outputs[0]);
  }
  if (image.permuted() && from.get_ndims() != 2) image = {};
  lowered.inputs[0] = to_format(from, image);
  lowered.outputs[0] = to_format(to, image);
  const Desc seen_from = like(from, to), seen_to = like(to, from);
  const auto chosen = ASSAY_ONEDNN(dnnl::reorder::primitive_desc(
      request.context.engine, seen_from, request.context.engine, seen_to, attributes()));
  auto kernel = std::make_unique<PrimitiveKernel>(request.context, ASSAY_ONEDNN(dnnl::reorder(chosen)));
  kernel->input(DNNL_ARG_FROM, seen_from, 0).output(DNNL_ARG_TO, seen_to, 0);
  finish(lowered, std::move(kernel), chosen.scratchpad_desc());
  return lowered;
}

// Nothing if the planner put the result in the operand's memory, else a copy.
class MoveKernel final : public Kernel {
 public:
  MoveKernel(int threads, std::int64_t bytes) : threads_(threads), bytes_(bytes) {}
  void bind(std::span<void* const> inputs, std::span<void* const> outputs, void*) override {
    from_ = static_cast<const char*>(inputs[0]);
    to_ = static_cast<char*>(outputs[0]);
  }
  void run() override {
    if (from_ == to_) return;
    parallel(threads_, bytes_, 64 * element_grain, [this](std::int64_t begin, std::int64_t end) {
      std::memcpy(to_ + begin, from_ + begin, static_cast<std::size_t>(end - begin));
    });
  }

 private:
  int threads_;
  std::int64_t bytes_;
  const char* from_ = nullptr;
  char* to_ = nullptr;
};

// flatten and reshape. An image becomes a matrix of permuted features, and back, without moving; all other
// tensors go through the row-major order.
Lowered lower_reshape(const Request& request) {
  const TensorType &x = request.inputs[0], &y = request.outputs[0];
  Lowered lowered = draft(request);
  lowered.inputs[0] = to_format(row_major(x));
  lowered.outputs[0] = to_format(row_major(y));
  if (!request.offer.plain && request.settled(0)) {
    const Desc from = request.input_desc(0);
    const Image image = request.input_image(0);
    const Tag tag = dense_image_tag(from);
    if (y.shape.size() == 2 && x.shape.size() == 4 && x.shape[0] == y.shape[0] && tag != Tag::undef) {
      const bool permuted = tag != Tag::nchw && to_format(from) != lowered.inputs[0];
      lowered.inputs[0] = request.offer.inputs[0];
      lowered.outputs[0] =
          to_format(row_major(y), permuted ? Image{tag, x.shape[1], x.shape[2], x.shape[3]} : Image{});
    } else if (image.permuted() && y.shape == Shape{x.shape[0], image.channels, image.height, image.width}) {
      lowered.inputs[0] = to_format(row_major(x), image);
      lowered.outputs[0] = to_format(with_tag(y, image.tag));
    }
  }
  lowered.in_place = {{0, 0}};
  lowered.view = !request.offer.plain;
  lowered.kernel = std::make_unique<MoveKernel>(request.context.threads, lowered.inputs[0].bytes);
  return lowered;
}

// Into separate memory, even if the planner shares it.
Lowered lower_from_array(const Request& request) {
  Lowered lowered = draft(request);
  lowered.inputs[0] = to_format(row_major(request.inputs[0]));
  lowered.outputs[0] = to_format(row_major(request.outputs[0]));
  lowered.kernel = std::make_unique<MoveKernel>(request.context.threads, lowered.inputs[0].bytes);
  return lowered;
}

// A list of boxed numbers, each read according to its tag.
class UnboxKernel final : public Kernel {
 public:
  UnboxKernel(int threads, std::int64_t numbers) : threads_(threads), numbers_(numbers) {}
  void bind(std::span<void* const> inputs, std::span<void* const> outputs, void*) override {
    from_ = static_cast<const float*>(inputs[0]);
    to_ = static_cast<float*>(outputs[0]);
  }
  void run() override {
    parallel(threads_, numbers_, element_grain, [this](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const float value = from_[2 * i + 1];
        to_[i] = from_[2 * i] == 0 ? static_cast<float>(static_cast<std::int64_t>(value)) : value;
      }
    });
  }

 private:
  int threads_;
  std::int64_t numbers_;
  const float* from_ = nullptr;
  float* to_ = nullptr;
};

Lowered lower_from_list(const Request& request) {
  Lowered lowered = draft(request);
  lowered.inputs[0] = to_format(row_major(request.inputs[0]));
  lowered.outputs[0] = to_format(row_major(request.outputs[0]));
  lowered.kernel = std::make_unique<UnboxKernel>(request.context.threads, request.outputs[0].elements());
  return lowered;
}

class FillKernel final : public Kernel {
 public:
  FillKernel(const TensorType& type, double value)
      : elements_(type.elements()), bf16_(type.dtype == DType::bf16) {
    value_ = static_cast<float>(value);
    std::uint32_t bits = 0;
    std::memcpy(&bits, &value_, sizeof bits);
    half_ = static_cast<std::uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);  // nearest, ties to even
  }
  void bind(std::span<void* const>, std::span<void* const> outputs, void*) override { to_ = outputs[0]; }
  void run() override {
    for (std::int64_t i = 0; i < elements_; ++i) {
      if (bf16_) {
        static_cast<std::uint16_t*>(to_)[i] = half_;
      } else {
        static_cast<float*>(to_)[i] = value_;
      }
    }
  }

 private:
  std::int64_t elements_;
  bool bf16_;
  float value_ = 0;
  std::uint16_t half_ = 0;
  void* to_ = nullptr;
};

Lowered lower_constant(const Request& request) {
  Lowered lowered = draft(request);
  lowered.outputs[0] = to_format(row_major(request.outputs[0]));
  lowered.kernel = std::make_unique<FillKernel>(request.outputs[0], request.node.attributes.number("value"));
  return lowered;
}

}  // namespace

std::span<const OpEntry> pointwise_ops() {
  static constexpr std::array entries{
      OpEntry{"relu", lower_relu, true},       OpEntry{"relu_gradient", lower_relu_gradient, true},
      OpEntry{"add", lower_binary, true},      OpEntry{"subtract", lower_binary, true},
      OpEntry{"multiply", lower_binary, true}, OpEntry{"divide", lower_binary, true},
      OpEntry{"cast", lower_cast, true},       OpEntry{"flatten", lower_reshape},
      OpEntry{"reshape", lower_reshape},       OpEntry{"constant", lower_constant},
      OpEntry{"from_array", lower_from_array}, OpEntry{"from_list", lower_from_list}};
  return entries;
}

}  // namespace assay::onednn
