// Average and max pooling, plane by plane.
#include <algorithm>
#include <array>

#include "backends/reference/body.hpp"
#include "harness/graph/sliding_window.hpp"

namespace assay::reference {
namespace {

struct Planes {
  std::int64_t count, height, width;  // of x: N * C planes
  std::int64_t out_height, out_width;
  SlidingWindow window;
  bool counts_padding;  // in the divisor of an average

  std::int64_t pixels() const { return height * width; }
  std::int64_t out_pixels() const { return out_height * out_width; }

  // Calls body(output index, first row, end row, first column, end column) for each window, cut to the image.
  template <typename Body>
  void windows(const Body& body) const {
    for (std::int64_t i = 0; i < out_height; ++i) {
      const std::int64_t top = i * window.rows.stride - window.rows.before;
      for (std::int64_t j = 0; j < out_width; ++j) {
        const std::int64_t left = j * window.columns.stride - window.columns.before;
        body(i * out_width + j, std::max<std::int64_t>(top, 0), std::min(top + window.rows.kernel, height),
             std::max<std::int64_t>(left, 0), std::min(left + window.columns.kernel, width));
      }
    }
  }

  // The divisor of a window that has `inside` elements in the image.
  std::int64_t divisor(std::int64_t inside) const {
    return counts_padding ? window.rows.kernel * window.columns.kernel : inside;
  }
};

Planes planes(const Context& context, const Shape& x, const Shape& y) {
  const Attributes& attributes = context.node.attributes;
  return {x[0] * x[1], x[2], x[3], y[2], y[3], pool_window(attributes), counts_padding(attributes)};
}

template <typename T>
Body<T> average_pool(const Context& context) {
  const Planes p = planes(context, context.in(0), context.out(0));
  ThreadPool& pool = context.pool;
  const auto run = [p, &pool](const Call<T>& call) {
    pool.run(p.count, 16, [&](int, std::int64_t begin, std::int64_t end) {
      for (std::int64_t plane = begin; plane < end; ++plane) {
        const T* x = call.in(0) + plane * p.pixels();
        T* y = call.out(0) + plane * p.out_pixels();
        p.windows([&](std::int64_t o, std::int64_t top, std::int64_t bottom, std::int64_t left,
                      std::int64_t right) {
          T sum = 0;
          for (std::int64_t h = top; h < bottom; ++h) {
            for (std::int64_t w = left; w < right; ++w) sum += x[h * p.width + w];
          }
          y[o] = sum / static_cast<T>(p.divisor((bottom - top) * (right - left)));
        });
      }
    });
  };
  return {run};
}

template <typename T>
Body<T> average_pool_gradient(const Context& context) {
  const Planes p = planes(context, context.out(0), context.in(0));
  const bool mask = context.has_input(1);
  ThreadPool& pool = context.pool;
  const auto run = [p, mask, &pool](const Call<T>& call) {
    pool.run(p.count, 16, [&](int, std::int64_t begin, std::int64_t end) {
      for (std::int64_t plane = begin; plane < end; ++plane) {
        const T* dy = call.in(0) + plane * p.out_pixels();
        T* dx = call.out(0) + plane * p.pixels();
        std::fill_n(dx, p.pixels(), T(0));
        p.windows([&](std::int64_t o, std::int64_t top, std::int64_t bottom, std::int64_t left,
                      std::int64_t right) {
          const T share = dy[o] / static_cast<T>(p.divisor((bottom - top) * (right - left)));
          for (std::int64_t h = top; h < bottom; ++h) {
            for (std::int64_t w = left; w < right; ++w) dx[h * p.width + w] += share;
          }
        });
        if (mask) apply_mask(call.in(1) + plane * p.pixels(), dx, p.pixels());
      }
    });
  };
  return {run};
}

// argmax: i32, the index of the maximum within the plane of x.
template <typename T>
Body<T> max_pool(const Context& context) {
  const Planes p = planes(context, context.in(0), context.out(0));
  const bool save = context.wants(1);
  ThreadPool& pool = context.pool;
  const auto run = [p, save, &pool](const Call<T>& call) {
    pool.run(p.count, 16, [&](int, std::int64_t begin, std::int64_t end) {
      for (std::int64_t plane = begin; plane < end; ++plane) {
        const T* x = call.in(0) + plane * p.pixels();
        T* y = call.out(0) + plane * p.out_pixels();
        p.windows([&](std::int64_t o, std::int64_t top, std::int64_t bottom, std::int64_t left,
                      std::int64_t right) {
          std::int64_t best = top * p.width + left;
          for (std::int64_t h = top; h < bottom; ++h) {
            for (std::int64_t w = left; w < right; ++w) {
              const std::int64_t here = h * p.width + w;
              // A NaN is the maximum.
              if (x[here] > x[best] || (x[here] != x[here] && x[best] == x[best])) best = here;
            }
          }
          y[o] = x[best];
          if (save) call.indices(1)[plane * p.out_pixels() + o] = static_cast<std::int32_t>(best);
        });
      }
    });
  };
  const auto bytes = p.count * p.out_pixels() * static_cast<std::int64_t>(sizeof(std::int32_t));
  return {run, 0, {0, save ? bytes : 0}};
}

template <typename T>
Body<T> max_pool_gradient(const Context& context) {
  const Planes p = planes(context, context.out(0), context.in(0));
  const bool mask = context.has_input(2);
  ThreadPool& pool = context.pool;
  const auto run = [p, mask, &pool](const Call<T>& call) {
    pool.run(p.count, 16, [&](int, std::int64_t begin, std::int64_t end) {
      for (std::int64_t plane = begin; plane < end; ++plane) {
        const T* dy = call.in(0) + plane * p.out_pixels();
        const std::int32_t* argmax = call.integers(1) + plane * p.out_pixels();
        T* dx = call.out(0) + plane * p.pixels();
        std::fill_n(dx, p.pixels(), T(0));
        for (std::int64_t o = 0; o < p.out_pixels(); ++o) dx[argmax[o]] += dy[o];
        if (mask) apply_mask(call.in(2) + plane * p.pixels(), dx, p.pixels());
      }
    });
  };
  return {run};
}

}  // namespace

std::span<const OpEntry> pool_ops() {
  static constexpr std::array entries{
      OpEntry{"average_pool", average_pool<float>, average_pool<double>},
      OpEntry{"average_pool_gradient", average_pool_gradient<float>, average_pool_gradient<double>},
      OpEntry{"max_pool", max_pool<float>, max_pool<double>},
      OpEntry{"max_pool_gradient", max_pool_gradient<float>, max_pool_gradient<double>}};
  return entries;
}

}  // namespace assay::reference
