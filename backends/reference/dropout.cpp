#include <algorithm>
#include <array>
#include <cstring>

#include "backends/reference/body.hpp"
#include "harness/core/io/philox.hpp"
#include "harness/engine/mask_draw.hpp"

namespace assay::reference {
namespace {

template <typename T>
Body<T> dropout(const Context& context) {
  ThreadPool& pool = context.pool;
  const auto scale = static_cast<T>(1 / (1 - context.node.attributes.number("rate")));
  return {[&pool, scale, n = element_count(context.out(0))](const Call<T>& call) {
    const T* x = call.in(0);
    const std::uint8_t* mask = call.bytes(1);
    T* y = call.out(0);
    pool.run(n, grain, [=](int, std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) y[i] = mask[i] != 0 ? x[i] * scale : T(0);
    });
  }};
}

template <typename T>
Body<T> dropout_mask(const Context& context) {
  ThreadPool& pool = context.pool;
  const MaskDraw draw{0, fnv1a(context.node.name), 0,
                      MaskDraw::dropped_of(context.node.attributes.number("rate"))};
  return {[&pool, draw, n = element_count(context.out(0))](const Call<T>& call) {
    const std::uint8_t* mask = call.bytes(0);
    auto* drawn = static_cast<std::uint8_t*>(call.outputs[0]);
    MaskDraw now = draw;
    now.seed = seed_from(call.integers(2));
    now.step = static_cast<std::uint32_t>(call.in(1)[1]);
    if (now.seed == 0) {
      if (drawn != mask) std::memcpy(drawn, mask, static_cast<std::size_t>(n));
      return;
    }
    pool.run((n + 7) / 8, grain / 8, [=](int, std::int64_t begin, std::int64_t end) {
      draw_mask(now, 8 * begin, std::min(8 * end, n), drawn);
    });
  }};
}

}  // namespace

std::span<const OpEntry> dropout_ops() {
  static constexpr std::array entries{OpEntry{"dropout", dropout<float>, dropout<double>},
                                      OpEntry{"dropout_mask", dropout_mask<float>, dropout_mask<double>}};
  return entries;
}

}  // namespace assay::reference
