// Batch normalisation: one channel belongs to one thread, so its sums have one order.
#include <array>
#include <cmath>

#include "backends/reference/body.hpp"

namespace assay::reference {
namespace {

struct Channels {
  std::int64_t batch, channels, pixels;

  explicit Channels(const Shape& x) : batch(x[0]), channels(x[1]), pixels(x[2] * x[3]) {}
  std::int64_t count() const { return batch * pixels; }

  // f(index) of every element of channel c.
  template <typename Function>
  void each(std::int64_t c, const Function& f) const {
    for (std::int64_t n = 0; n < batch; ++n) {
      const std::int64_t first = (n * channels + c) * pixels;
      for (std::int64_t i = first; i < first + pixels; ++i) f(i);
    }
  }
};

template <typename T>
Body<T> batch_norm(const Context& context) {
  const Attributes& attributes = context.node.attributes;
  const Channels x(context.in(0));
  const bool training = attributes.get<bool>("training");
  const auto epsilon = static_cast<T>(attributes.number("epsilon"));
  const auto momentum = static_cast<T>(attributes.number("momentum"));
  const bool relu = context.activation();
  const std::array<bool, 5> wanted{true, context.wants(1), context.wants(2), context.wants(3),
                                   context.wants(4)};
  ThreadPool& pool = context.pool;
  const auto run = [=, &pool](const Call<T>& call) {
    pool.run(x.channels, 1, [&](int, std::int64_t begin, std::int64_t end) {
      for (std::int64_t c = begin; c < end; ++c) {
        const T* in = call.in(0);
        T mean = call.in(3)[c], variance = call.in(4)[c];
        if (training) {
          T sum = 0, squares = 0;
          x.each(c, [&](std::int64_t i) { sum += in[i]; });
          mean = sum / static_cast<T>(x.count());
          x.each(c, [&](std::int64_t i) { squares += (in[i] - mean) * (in[i] - mean); });
          variance = squares / static_cast<T>(x.count());
        }
        const T inverse = T(1) / std::sqrt(variance + epsilon);
        const T weight = call.in(1)[c], bias = call.in(2)[c];
        T* out = call.out(0);
        x.each(c, [&](std::int64_t i) {
          const T y = (in[i] - mean) * inverse * weight + bias;
          out[i] = relu && y < T(0) ? T(0) : y;
        });
        if (!training) continue;
        if (wanted[1]) call.out(1)[c] = mean;
        if (wanted[2]) call.out(2)[c] = inverse;
        if (wanted[3]) call.out(3)[c] = momentum * call.in(3)[c] + (T(1) - momentum) * mean;
        if (wanted[4]) call.out(4)[c] = momentum * call.in(4)[c] + (T(1) - momentum) * variance;
      }
    });
  };
  return {run};
}

template <typename T>
Body<T> batch_norm_gradient(const Context& context) {
  const Channels x(context.in(0));
  ThreadPool& pool = context.pool;
  const auto run = [x, &pool](const Call<T>& call) {
    pool.run(x.channels, 1, [&](int, std::int64_t begin, std::int64_t end) {
      for (std::int64_t c = begin; c < end; ++c) {
        const T *in = call.in(0), *dy = call.in(4);
        const T weight = call.in(1)[c], mean = call.in(2)[c], inverse = call.in(3)[c];
        T dweight = 0, dbias = 0;
        x.each(c, [&](std::int64_t i) {
          dbias += dy[i];
          dweight += dy[i] * (in[i] - mean) * inverse;
        });
        const auto count = static_cast<T>(x.count());
        T* dx = call.out(0);
        x.each(c, [&](std::int64_t i) {
          const T h = (in[i] - mean) * inverse;
          dx[i] = weight * inverse * (dy[i] - (dbias + h * dweight) / count);
        });
        call.out(1)[c] = dweight;
        call.out(2)[c] = dbias;
      }
    });
  };
  return {run};
}

}  // namespace

std::span<const OpEntry> norm_ops() {
  static constexpr std::array entries{
      OpEntry{"batch_norm", batch_norm<float>, batch_norm<double>},
      OpEntry{"batch_norm_gradient", batch_norm_gradient<float>, batch_norm_gradient<double>}};
  return entries;
}

}  // namespace assay::reference
