// Dropout: the mask is drawn and applied in the order of the elements in memory.
#include <algorithm>
#include <cstring>

#include "backends/onednn/loops/loops.hpp"
#include "backends/onednn/lowering.hpp"
#include "backends/onednn/parallel.hpp"
#include "harness/core/io/philox.hpp"
#include "harness/engine/mask_draw.hpp"

namespace assay::onednn {
namespace {

// The layout of x for bytes; undecided if the format does not exist for another type.
Format mask_format(const TensorType& mask, const Layout& x) {
  if (const Tag tag = image_tag(x.desc); tag != Tag::undef) return to_format(with_tag(mask, tag), x.image);
  const Desc plain = row_major({DType::f32, mask.shape});
  const Desc wide = row_major({DType::bf16, mask.shape});
  if (x.desc == plain || x.desc == wide) return to_format(row_major(mask), x.image);
  return {};
}

class DropoutKernel final : public Kernel {
 public:
  DropoutKernel(int threads, const Desc& desc, double rate)
      : threads_(threads),
        bf16_(desc.get_data_type() == dnnl::memory::data_type::bf16),
        elements_(static_cast<std::int64_t>(desc.get_size()) / (bf16_ ? 2 : 4)),
        scale_(static_cast<float>(1 / (1 - rate))) {}

  void bind(std::span<void* const> inputs, std::span<void* const> outputs, void*) override {
    x_ = inputs[0];
    mask_ = static_cast<const std::uint8_t*>(inputs[1]);
    y_ = outputs[0];
  }

  void run() override {
    parallel(threads_, elements_, element_grain, [this](std::int64_t begin, std::int64_t end) {
      if (bf16_) {
        loops().dropout_bf16(mask_ + begin, static_cast<const std::uint16_t*>(x_) + begin, scale_,
                             static_cast<std::uint16_t*>(y_) + begin, end - begin);
      } else {
        loops().dropout_f32(mask_ + begin, static_cast<const float*>(x_) + begin, scale_,
                            static_cast<float*>(y_) + begin, end - begin);
      }
    });
  }

 private:
  int threads_;
  bool bf16_;
  std::int64_t elements_;  // including the padding
  float scale_;
  const void* x_ = nullptr;
  const std::uint8_t* mask_ = nullptr;
  void* y_ = nullptr;
};

Lowered lower_dropout(const Request& request) {
  Lowered lowered = draft(request);
  Format format = to_format(row_major(request.inputs[0]));
  if (request.settled(0)) {
    format = request.offer.inputs[0];
  } else if (request.offer.outputs[0].decided()) {
    format = request.offer.outputs[0];
  }
  Format mask = mask_format(request.inputs[1], layout_of(format));
  if (!mask.decided()) {
    format = to_format(row_major(request.inputs[0]));
    mask = to_format(row_major(request.inputs[1]));
  }
  lowered.inputs[0] = lowered.outputs[0] = format;
  lowered.inputs[1] = mask;
  lowered.in_place = {{0, 0}};
  lowered.kernel = std::make_unique<DropoutKernel>(request.context.threads, layout_of(format).desc,
                                                   request.node.attributes.number("rate"));
  return lowered;
}

class DropoutMaskKernel final : public Kernel {
 public:
  DropoutMaskKernel(int threads, const Node& node, std::int64_t bytes)
      : threads_(threads),
        draw_{0, fnv1a(node.name), 0, MaskDraw::dropped_of(node.attributes.number("rate"))},
        bytes_(bytes) {}

  void bind(std::span<void* const> inputs, std::span<void* const> outputs, void*) override {
    mask_ = inputs[0];
    schedule_ = static_cast<const float*>(inputs[1]);
    seed_ = static_cast<const std::int32_t*>(inputs[2]);
    drawn_ = static_cast<std::uint8_t*>(outputs[0]);
  }

  void run() override {
    MaskDraw draw = draw_;
    draw.seed = seed_from(seed_);
    draw.step = static_cast<std::uint32_t>(schedule_[1]);
    if (draw.seed == 0) {
      if (mask_ != drawn_) std::memcpy(drawn_, mask_, static_cast<std::size_t>(bytes_));
      return;
    }
    parallel(threads_, bytes_, element_grain,
             [&](std::int64_t begin, std::int64_t end) { draw_mask(draw, begin, end, drawn_); });
  }

 private:
  int threads_;
  MaskDraw draw_;
  std::int64_t bytes_;
  const void* mask_ = nullptr;
  const float* schedule_ = nullptr;
  const std::int32_t* seed_ = nullptr;
  std::uint8_t* drawn_ = nullptr;
};

// Lowered after its reader, which has chosen the mask's layout.
Lowered lower_dropout_mask(const Request& request) {
  Lowered lowered = draft(request);
  Format format = to_format(row_major(request.inputs[0]));
  if (request.offer.outputs[0].decided()) {
    format = request.offer.outputs[0];
  } else if (request.settled(0)) {
    format = request.offer.inputs[0];
  }
  lowered.inputs[0] = lowered.outputs[0] = format;
  lowered.inputs[1] = to_format(row_major(request.inputs[1]));
  lowered.inputs[2] = to_format(row_major(request.inputs[2]));
  lowered.in_place = {{0, 0}};
  lowered.kernel = std::make_unique<DropoutMaskKernel>(request.context.threads, request.node, format.bytes);
  return lowered;
}

}  // namespace

std::span<const OpEntry> dropout_ops() {
  static constexpr std::array entries{OpEntry{"dropout", lower_dropout},
                                      OpEntry{"dropout_mask", lower_dropout_mask}};
  return entries;
}

}  // namespace assay::onednn
