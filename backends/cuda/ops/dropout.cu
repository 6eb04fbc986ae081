// Dropout, and the mask of a step, drawn from a seed and a step count in device memory.
#include "backends/cuda/kernels/philox.hpp"
#include "backends/cuda/lowering.hpp"
#include "harness/core/io/philox.hpp"
#include "harness/engine/mask_draw.hpp"

namespace assay::cuda {
namespace {

template <typename T>
struct Dropout {
  const T* x;
  const std::uint8_t* mask;
  T* y;
  float scale;
  ASSAY_HD void operator()(std::int64_t i) const {
    y[i] = narrow<T>(mask[i] != 0 ? widen(x[i]) * scale : 0.0F);
  }
};

// Elements [8 b, 8 b + 8) of the mask, equal to those of draw_mask().
struct DrawMask {
  const std::uint8_t* mask;
  const float* schedule;
  const std::int32_t* seed;
  std::uint8_t* drawn;
  std::int64_t elements;
  std::uint32_t stream_low, stream_high, dropped;

  ASSAY_HD void operator()(std::int64_t block) const {
    const auto low = static_cast<std::uint32_t>(seed[0]), high = static_cast<std::uint32_t>(seed[1]);
    const std::int64_t first = 8 * block, count = smaller(8, elements - first);
    if (low == 0 && high == 0) {
      for (std::int64_t i = first; i < first + count; ++i) drawn[i] = mask[i];
      return;
    }
    const Words words =
        ::assay::cuda::philox4x32({{static_cast<std::uint32_t>(block),
                                    static_cast<std::uint32_t>(schedule[1]), stream_low, stream_high}},
                                  low, high);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::uint32_t half = (words.word[i / 2] >> (i % 2 == 0 ? 0 : 16)) & 0xffffU;
      drawn[first + i] = half >= dropped ? 1 : 0;
    }
  }
};

Lowered lower_dropout(const Request& request) {
  Lowered lowered = draft(request, request.follow({0}));
  lowered.in_place = in_place(request.node);
  const Stream stream = request.context.device.stream();
  const auto scale = static_cast<float>(1 / (1 - request.node.attributes.number("rate")));
  lowered.kernel = with_type(request.inputs[0].dtype, [&]<typename T>(T) {
    return make_kernel(
        [stream, n = request.inputs[0].elements(), scale](const Operands& at) {
          for_each(stream, n, Dropout<T>{at.in<T>(0), at.in<std::uint8_t>(1), at.out<T>(0), scale});
        },
        "own:pointwise");
  });
  return lowered;
}

Lowered lower_mask(const Request& request) {
  // The layout of its reader, which was lowered before.
  Layout layout = request.follow({});
  if (request.offer.inputs[0].decided()) layout = layout_of(request.offer.inputs[0]);
  Lowered lowered = draft(request, layout);
  lowered.in_place = in_place(request.node);
  const Stream stream = request.context.device.stream();
  DrawMask draw{};
  draw.elements = request.outputs[0].elements();
  const std::uint64_t name = fnv1a(request.node.name);
  draw.stream_low = static_cast<std::uint32_t>(name);
  draw.stream_high = static_cast<std::uint32_t>(name >> 32);
  draw.dropped = MaskDraw::dropped_of(request.node.attributes.number("rate"));
  lowered.kernel = make_kernel(
      [stream, draw](const Operands& at) {
        DrawMask now = draw;
        now.mask = at.in<std::uint8_t>(0);
        now.schedule = at.in<float>(1);
        now.seed = at.in<std::int32_t>(2);
        now.drawn = at.out<std::uint8_t>(0);
        for_each(stream, (now.elements + 7) / 8, now);
      },
      "own:philox4x32");
  return lowered;
}

}  // namespace

std::span<const OpEntry> dropout_ops() {
  static constexpr std::array entries{OpEntry{"dropout", lower_dropout}, OpEntry{"dropout_mask", lower_mask}};
  return entries;
}

}  // namespace assay::cuda
