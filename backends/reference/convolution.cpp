// Convolution as a matrix product over unfolded windows, one group of channels of one image at a time.
#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "backends/reference/body.hpp"
#include "backends/reference/gemm.hpp"
#include "harness/graph/sliding_window.hpp"

namespace assay::reference {
namespace {

struct Geometry {
  std::int64_t batch, channels, height, width;  // x
  std::int64_t filters, out_height, out_width;  // y
  std::int64_t groups;
  SlidingWindow window;

  std::int64_t pixels() const { return out_height * out_width; }
  std::int64_t image() const { return channels * height * width; }
  std::int64_t result() const { return filters * pixels(); }
  std::int64_t depth() const { return group_channels() * window.rows.kernel * window.columns.kernel; }
  // Elements of one group of x, of the weight and of y.
  std::int64_t group_channels() const { return channels / groups; }
  std::int64_t group_filters() const { return filters / groups; }
  std::int64_t group_image() const { return image() / groups; }
  std::int64_t group_weights() const { return group_filters() * depth(); }
  std::int64_t group_result() const { return group_filters() * pixels(); }
};

// weight: (filters, channels / groups, rows, columns)
Geometry geometry(const Context& context, const Shape& x, const Shape& weight, const Shape& y) {
  const Attributes& attributes = context.node.attributes;
  return {x[0],
          x[1],
          x[2],
          x[3],
          weight[0],
          y[2],
          y[3],
          groups_of(attributes),
          sliding_window(attributes, weight[2], weight[3])};
}

// The windows [begin, end) of `out` whose element `k` of the kernel is inside of `in` elements; 0 <= begin <= end <= out.
// It may be that no window's is.
std::pair<std::int64_t, std::int64_t> inside(const WindowAxis& axis, std::int64_t k, std::int64_t in,
                                             std::int64_t out) {
  const std::int64_t shift = axis.before - k * axis.dilation;
  const std::int64_t first = shift <= 0 ? 0 : (shift + axis.stride - 1) / axis.stride;
  const std::int64_t last = in - 1 + shift;
  const std::int64_t begin = std::min(first, out);
  const std::int64_t end = last < 0 ? 0 : std::min(out, last / axis.stride + 1);
  return {begin, std::max(begin, end)};
}

// Of one group. columns: (depth, pixels)
template <typename T>
void unfold(const Geometry& g, const T* image, T* columns) {
  const WindowAxis &down = g.window.rows, &across = g.window.columns;
  for (std::int64_t c = 0; c < g.group_channels(); ++c) {
    for (std::int64_t kh = 0; kh < down.kernel; ++kh) {
      for (std::int64_t kw = 0; kw < across.kernel; ++kw, columns += g.pixels()) {
        const auto [begin, end] = inside(across, kw, g.width, g.out_width);
        const std::int64_t shift = kw * across.dilation - across.before;
        for (std::int64_t oh = 0; oh < g.out_height; ++oh) {
          T* to = columns + oh * g.out_width;
          const std::int64_t ih = oh * down.stride + kh * down.dilation - down.before;
          if (ih < 0 || ih >= g.height) {
            std::fill_n(to, g.out_width, T(0));
            continue;
          }
          const T* from = image + (c * g.height + ih) * g.width;
          std::fill(to, to + begin, T(0));
          if (across.stride == 1 && begin < end) {
            std::copy(from + begin + shift, from + end + shift, to + begin);
          } else {
            for (std::int64_t ow = begin; ow < end; ++ow) to[ow] = from[ow * across.stride + shift];
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
  const WindowAxis &down = g.window.rows, &across = g.window.columns;
  std::fill_n(image, g.group_image(), T(0));
  for (std::int64_t c = 0; c < g.group_channels(); ++c) {
    for (std::int64_t kh = 0; kh < down.kernel; ++kh) {
      for (std::int64_t kw = 0; kw < across.kernel; ++kw, columns += g.pixels()) {
        const auto [begin, end] = inside(across, kw, g.width, g.out_width);
        const std::int64_t shift = kw * across.dilation - across.before;
        for (std::int64_t oh = 0; oh < g.out_height; ++oh) {
          const std::int64_t ih = oh * down.stride + kh * down.dilation - down.before;
          if (ih < 0 || ih >= g.height) continue;
          T* to = image + (c * g.height + ih) * g.width;
          const T* from = columns + oh * g.out_width;
          if (across.stride == 1) {
            for (std::int64_t ow = begin; ow < end; ++ow) to[ow + shift] += from[ow];
          } else {
            for (std::int64_t ow = begin; ow < end; ++ow) to[ow * across.stride + shift] += from[ow];
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
        T* y = call.out(0) + n * g.result();
        for (std::int64_t f = 0; f < g.filters; ++f) {
          std::fill_n(y + f * g.pixels(), g.pixels(), bias ? call.in(2)[f] : T(0));
        }
        for (std::int64_t group = 0; group < g.groups; ++group) {
          unfold(g, call.in(0) + n * g.image() + group * g.group_image(), unfolded);
          pack<T>({unfolded, g.pixels(), 1}, g.pixels(), g.depth(), packed);
          gemm<T>(g.group_filters(), g.pixels(), g.depth(),
                  {call.in(1) + group * g.group_weights(), g.depth(), 1}, packed,
                  y + group * g.group_result(), g.pixels(), true);
        }
        if (relu) clip(y, g.result());
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
  const std::int64_t own = columns + packed_elements(g.pixels(), g.group_filters());
  const bool mask = context.has_input(2);
  ThreadPool& pool = context.pool;
  const auto run = [=, &pool](const Call<T>& call) {
    pool.run(g.batch, 1, [&](int part, std::int64_t begin, std::int64_t end) {
      T* unfolded = call.scratch + part * own;
      T* packed = unfolded + columns;
      for (std::int64_t n = begin; n < end; ++n) {
        T* dx = call.out(0) + n * g.image();
        for (std::int64_t group = 0; group < g.groups; ++group) {
          const T* dy = call.in(0) + n * g.result() + group * g.group_result();
          pack<T>({dy, g.pixels(), 1}, g.pixels(), g.group_filters(), packed);
          gemm<T>(g.depth(), g.pixels(), g.group_filters(),
                  {call.in(1) + group * g.group_weights(), 1, g.depth()}, packed, unfolded, g.pixels(),
                  false);
          fold(g, unfolded, dx + group * g.group_image());
        }
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
        const T* plane = dy + n * g.result() + f * g.pixels();
        sum += std::accumulate(plane, plane + g.pixels(), T(0));
      }
      db[f] = sum;
    }
  });
}

// In each group dweight^T = sum over images of unfolded(x) dy^T. dy is the smaller operand, so it is the one that is
// rearranged. Each part sums its images, then the parts are added in order.
template <typename T>
Body<T> convolution_weight_gradient(const Context& context) {
  const Geometry g = geometry(context, context.in(0), context.out(0), context.in(1));
  const std::int64_t columns = g.depth() * g.pixels();
  const std::int64_t weights = g.filters * g.depth();
  const std::int64_t own = weights + columns + packed_elements(g.group_filters(), g.pixels());
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
        for (std::int64_t group = 0; group < g.groups; ++group) {
          const T* dy = call.in(1) + n * g.result() + group * g.group_result();
          unfold(g, call.in(0) + n * g.image() + group * g.group_image(), unfolded);
          pack<T>({dy, 1, g.pixels()}, g.group_filters(), g.pixels(), packed);
          gemm<T>(g.depth(), g.group_filters(), g.pixels(), {unfolded, g.pixels(), 1}, packed,
                  sum + group * g.group_weights(), g.group_filters(), true);
        }
      }
    });
    pool.run(g.filters, 1, [&](int, std::int64_t begin, std::int64_t end) {
      for (std::int64_t f = begin; f < end; ++f) {
        for (std::int64_t d = 0; d < g.depth(); ++d) {
          const T* at = call.scratch + f / g.group_filters() * g.group_weights() + d * g.group_filters() +
                        f % g.group_filters();
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
