// Local response norm: over neighbouring channels of an image.
#include <algorithm>
#include <array>
#include <cmath>

#include "backends/reference/body.hpp"

namespace assay::reference {
namespace {

struct Neighbours {
  std::int64_t samples, count, pixels;  // of x (N, C, H, W)
  std::int64_t reach;                   // channels on each side
  double alpha, beta, bias;             // alpha is divided by the size

  explicit Neighbours(const Context& context) {
    const Shape& x = context.in(0);
    const Attributes& attributes = context.node.attributes;
    const auto size = attributes.get<std::int64_t>("size");
    samples = x[0];
    count = x[1];
    pixels = x[2] * x[3];
    reach = size / 2;
    alpha = attributes.number("alpha") / static_cast<double>(size);
    beta = attributes.number("beta");
    bias = attributes.number("bias");
  }

  // The sum of f(k) over the neighbours k of channel c.
  template <typename T, typename Function>
  T sum(std::int64_t c, const Function& f) const {
    T total = 0;
    for (std::int64_t k = std::max<std::int64_t>(c - reach, 0); k < std::min(c + reach + 1, count); ++k)
      total += f(k);
    return total;
  }
};

// Calls body(x of one pixel, its scratch, its place): the channels of a pixel are `pixels` apart. scratch: (2, C)
template <typename T, typename Function>
void each_pixel(ThreadPool& pool, const Neighbours& channels, const Call<T>& call, const Function& body) {
  pool.run(channels.samples * channels.pixels, std::max<std::int64_t>(1, grain / channels.count / 8),
           [&](int part, std::int64_t begin, std::int64_t end) {
             T* scale = call.scratch + part * 2 * channels.count;
             for (std::int64_t i = begin; i < end; ++i) {
               const std::int64_t first =
                   i / channels.pixels * channels.count * channels.pixels + i % channels.pixels;
               const T* x = call.in(0) + first;
               for (std::int64_t c = 0; c < channels.count; ++c) {
                 const T squares = channels.template sum<T>(
                     c, [&](std::int64_t k) { return x[k * channels.pixels] * x[k * channels.pixels]; });
                 scale[c] = static_cast<T>(channels.bias) + static_cast<T>(channels.alpha) * squares;
               }
               body(x, scale, first);
             }
           });
}

template <typename T>
Body<T> local_response_norm(const Context& context) {
  const Neighbours channels(context);
  ThreadPool& pool = context.pool;
  const auto run = [=, &pool](const Call<T>& call) {
    each_pixel<T>(pool, channels, call, [&](const T* x, const T* scale, std::int64_t first) {
      T* y = call.out(0) + first;
      for (std::int64_t c = 0; c < channels.count; ++c)
        y[c * channels.pixels] = x[c * channels.pixels] * std::pow(scale[c], static_cast<T>(-channels.beta));
    });
  };
  return {run, 2 * channels.count * pool.size()};
}

template <typename T>
Body<T> local_response_norm_gradient(const Context& context) {
  const Neighbours channels(context);
  ThreadPool& pool = context.pool;
  const auto run = [=, &pool](const Call<T>& call) {
    each_pixel<T>(pool, channels, call, [&](const T* x, T* scale, std::int64_t first) {
      const T* dy = call.in(1) + first;
      T* dx = call.out(0) + first;
      T* through = scale + channels.count;  // dy * x * s^(-beta - 1)
      for (std::int64_t c = 0; c < channels.count; ++c) {
        const std::int64_t at = c * channels.pixels;
        through[c] = dy[at] * x[at] * std::pow(scale[c], static_cast<T>(-channels.beta - 1));
      }
      const T factor = static_cast<T>(2 * channels.alpha * channels.beta);
      for (std::int64_t c = 0; c < channels.count; ++c) {
        const std::int64_t at = c * channels.pixels;
        const T others = channels.template sum<T>(c, [&](std::int64_t k) { return through[k]; });
        dx[at] = dy[at] * std::pow(scale[c], static_cast<T>(-channels.beta)) - factor * x[at] * others;
      }
    });
  };
  return {run, 2 * channels.count * pool.size()};
}

}  // namespace

std::span<const OpEntry> local_response_norm_ops() {
  static constexpr std::array entries{
      OpEntry{"local_response_norm", local_response_norm<float>, local_response_norm<double>},
      OpEntry{"local_response_norm_gradient", local_response_norm_gradient<float>,
              local_response_norm_gradient<double>}};
  return entries;
}

}  // namespace assay::reference
