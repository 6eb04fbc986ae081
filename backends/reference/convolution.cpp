// Convolution as a matrix product over unfolded windows, one image at a time.
#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "backends/reference/body.hpp"
#include "backends/reference/gemm.hpp"

namespace assay::reference {
namespace {

struct Geometry {
  std::int64_t batch, channels, height, width;  // x
  std::int64_t filters, window_height,
      window_width;  // weight: (filters, channels, window_height, window_width)
  std::int64_t out_height, out_width;
  std::int64_t stride, padding;

  std::int64_t depth() const { return channels * window_height * window_width; }
  std::int64_t pixels() const { return out_height * out_width; }
  std::int64_t image() const { return channels * height * width; }
};

Geometry geometry(const Context& context, const Shape& x, const Shape& weight, const Shape& y) {
  return {x[0],
          x[1],
          x[2],
          x[3],
          weight[0],
          weight[2],
          weight[3],
          y[2],
          y[3],
          context.node.attributes.get<std::int64_t>("stride"),
          context.node.attributes.get<std::int64_t>("padding")};
}

// The columns [begin, end) of an output row whose input column ow * stride + kw - padding is inside the image;
// 0 <= begin <= end <= out_width. It may be that no column is.
std::pair<std::int64_t, std::int64_t> inside(const Geometry& g, std::int64_t kw) {
  const std::int64_t shift = g.padding - kw;
  const std::int64_t first = shift <= 0 ? 0 : (shift + g.stride - 1) / g.stride;
  const std::int64_t last = g.width - 1 + shift;
  const std::int64_t begin = std::min(first, g.out_width);
  const std::int64_t end = last < 0 ? 0 : std::min(g.out_width, last / g.stride + 1);
  return {begin, std::max(begin, end)};
}

// columns: (depth, pixels)
template <typename T>
void unfold(const Geometry& g, const T* image, T* columns) {
  for (std::int64_t c = 0; c < g.channels; ++c) {
    for (std::int64_t kh = 0; kh < g.window_height; ++kh) {
      for (std::int64_t kw = 0; kw < g.window_width; ++kw, columns += g.pixels()) {
        const auto [begin, end] = inside(g, kw);
        for (std::int64_t oh = 0; oh < g.out_height; ++oh) {
          T* to = columns + oh * g.out_width;
          const std::int64_t ih = oh * g.stride + kh - g.padding;
          if (ih < 0 || ih >= g.height) {
            std::fill_n(to, g.out_width, T(0));
            continue;
          }
          const T* from = image + (c * g.height + ih) * g.width;
          const std::int64_t shift = kw - g.padding;
          std::fill(to, to + begin, T(0));
          if (g.stride == 1 && begin < end) {
            std::copy(from + begin + shift, from + end + shift, to + begin);
          } else {
            for (std::int64_t ow = begin; ow < end; ++ow) to[ow] = from[ow * g.stride + shift];
          }
          std::fill(to + end, to + g.out_width, T(0));
        }
      }
    }
  }
}

// The transpose of unfold: adds what overlaps.
template <typename T>
void fold(const Geometry& g, const T* columns, T* image) {
  std::fill_n(image, g.image(), T(0));
  for (std::int64_t c = 0; c < g.channels; ++c) {
    for (std::int64_t kh = 0; kh < g.window_height; ++kh) {
      for (std::int64_t kw = 0; kw < g.window_width; ++kw, columns += g.pixels()) {
        const auto [begin, end] = inside(g, kw);
        for (std::int64_t oh = 0; oh < g.out_height; ++oh) {
          const std::int64_t ih = oh * g.stride + kh - g.padding;
          if (ih < 0 || ih >= g.height) continue;
          T* to = image + (c * g.height + ih) * g.width;
          const T* from = columns + oh * g.out_width;
          const std::int64_t shift = kw - g.padding;
          if (g.stride == 1) {
            for (std::int64_t ow = begin; ow < end; ++ow) to[ow + shift] += from[ow];
          } else {
            for (std::int64_t ow = begin; ow < end; ++ow) to[ow * g.stride + shift] += from[ow];
          }
        }
      }
    }
  }
}

template <typename T>
Body<T> convolution(const Context& context) {
  const Geometry g = geometry(context, context.in(0), context.in(1), context.out(0));
  const std::int64_t columns = g.depth() * g.pixels();
  const std::int64_t own = columns + packed_elements(g.pixels(), g.depth());
  const bool bias = context.has_input(2);
  const bool relu = context.activation();
  ThreadPool& pool = context.pool;
  const auto run = [=, &pool](const Call<T>& call) {
    pool.run(g.batch, 1, [&](int part, std::int64_t begin, std::int64_t end) {
      T* unfolded = call.scratch + part * own;
      T* packed = unfolded + columns;
      for (std::int64_t n = begin; n < end; ++n) {
        T* y = call.out(0) + n * g.filters * g.pixels();
        for (std::int64_t f = 0; f < g.filters; ++f) {
          std::fill_n(y + f * g.pixels(), g.pixels(), bias ? call.in(2)[f] : T(0));
        }
        unfold(g, call.in(0) + n * g.image(), unfolded);
        pack<T>({unfolded, g.pixels(), 1}, g.pixels(), g.depth(), packed);
        gemm<T>(g.filters, g.pixels(), g.depth(), {call.in(1), g.depth(), 1}, packed, y, g.pixels(), true);
        if (relu) clip(y, g.filters * g.pixels());
      }
    });
  };
  return {run, own * pool.size()};
}

// dx = weight^T dy, folded.
template <typename T>
Body<T> convolution_input_gradient(const Context& context) {
  const Geometry g = geometry(context, context.out(0), context.in(1), context.in(0));
  const std::int64_t columns = g.depth() * g.pixels();
  const std::int64_t own = columns + packed_elements(g.pixels(), g.filters);
  const bool mask = context.has_input(2);
  ThreadPool& pool = context.pool;
  const auto run = [=, &pool](const Call<T>& call) {
    pool.run(g.batch, 1, [&](int part, std::int64_t begin, std::int64_t end) {
      T* unfolded = call.scratch + part * own;
      T* packed = unfolded + columns;
      for (std::int64_t n = begin; n < end; ++n) {
        T* dx = call.out(0) + n * g.image();
        pack<T>({call.in(0) + n * g.filters * g.pixels(), g.pixels(), 1}, g.pixels(), g.filters, packed);
        gemm<T>(g.depth(), g.pixels(), g.filters, {call.in(1), 1, g.depth()}, packed, unfolded, g.pixels(),
                false);
        fold(g, unfolded, dx);
        if (mask) apply_mask(call.in(2) + n * g.image(), dx, g.image());
      }
    });
  };
  return {run, own * pool.size()};
}

template <typename T>
void bias_gradient(const Geometry& g, ThreadPool& pool, const T* dy, T* db) {
  pool.run(g.filters, 1, [&](int, std::int64_t begin, std::int64_t end) {
    for (std::int64_t f = begin; f < end; ++f) {
      T sum = 0;
      for (std::int64_t n = 0; n < g.batch; ++n) {
        const T* plane = dy + (n * g.filters + f) * g.pixels();
        sum += std::accumulate(plane, plane + g.pixels(), T(0));
      }
      db[f] = sum;
    }
  });
}

// dweight^T = sum over images of unfolded(x) dy^T. dy is the smaller operand, so it is the one that is
// rearranged. Each part sums its images, then the parts are added in order.
template <typename T>
Body<T> convolution_weight_gradient(const Context& context) {
  const Geometry g = geometry(context, context.in(0), context.out(0), context.in(1));
  const std::int64_t columns = g.depth() * g.pixels();
  const std::int64_t weights = g.filters * g.depth();
  const std::int64_t own = weights + columns + packed_elements(g.filters, g.pixels());
  const bool bias = context.wants(1);
  ThreadPool& pool = context.pool;
  const auto run = [=, &pool](const Call<T>& call) {
    const std::int64_t parts = pool.size();
    for (std::int64_t part = 0; part < parts; ++part) std::fill_n(call.scratch + part * own, weights, T(0));
    pool.run(g.batch, 1, [&](int part, std::int64_t begin, std::int64_t end) {
      T* sum = call.scratch + part * own;
      T* unfolded = sum + weights;
      T* packed = unfolded + columns;
      for (std::int64_t n = begin; n < end; ++n) {
        unfold(g, call.in(0) + n * g.image(), unfolded);
        pack<T>({call.in(1) + n * g.filters * g.pixels(), 1, g.pixels()}, g.filters, g.pixels(), packed);
        gemm<T>(g.depth(), g.filters, g.pixels(), {unfolded, g.pixels(), 1}, packed, sum, g.filters, true);
      }
    });
    pool.run(g.filters, 1, [&](int, std::int64_t begin, std::int64_t end) {
      for (std::int64_t f = begin; f < end; ++f) {
        for (std::int64_t d = 0; d < g.depth(); ++d) {
          const T* at = call.scratch + d * g.filters + f;
          T sum = at[0];
          for (std::int64_t part = 1; part < parts; ++part) sum += at[part * own];
          call.out(0)[f * g.depth() + d] = sum;
        }
      }
    });
    if (bias) bias_gradient(g, pool, call.in(1), call.out(1));
  };
  return {run, own * pool.size()};
}

}  // namespace

std::span<const OpEntry> convolution_ops() {
  static constexpr std::array entries{
      OpEntry{"convolution", convolution<float>, convolution<double>, 2},
      OpEntry{"convolution_input_gradient", convolution_input_gradient<float>,
              convolution_input_gradient<double>, 2},
      OpEntry{"convolution_weight_gradient", convolution_weight_gradient<float>,
              convolution_weight_gradient<double>, 2}};
  return entries;
}

}  // namespace assay::reference
