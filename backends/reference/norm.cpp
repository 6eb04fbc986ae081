// Batch normalisation: a channel belongs to one thread, so the order of its sums is fixed.
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
  const bool relu = context.activation(), residual = context.has_input(5);
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
          T y = (in[i] - mean) * inverse * weight + bias;
          if (residual) y += call.in(5)[i];
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
  const bool recomputed = context.has_input(5), activated = context.has_input(6),
             addend = context.has_input(7);
  const bool sum_wanted = context.wants(3), total_wanted = context.wants(4);
  ThreadPool& pool = context.pool;
  const auto run = [=, &pool](const Call<T>& call) {
    pool.run(x.channels, 1, [&](int, std::int64_t begin, std::int64_t end) {
      for (std::int64_t c = begin; c < end; ++c) {
        const T* in = call.in(0);
        const T weight = call.in(1)[c], mean = call.in(2)[c], inverse = call.in(3)[c];
        const T bias = recomputed ? call.in(5)[c] : T(0);
        // dy plus the addend, after the gradient of the ReLU.
        const auto total = [&](std::int64_t i) {
          T dy = call.in(4)[i];
          if (addend) dy += call.in(7)[i];
          if (activated && call.in(6)[i] <= T(0)) dy = T(0);
          if (recomputed && (in[i] - mean) * inverse * weight + bias <= T(0)) dy = T(0);
          return dy;
        };
        T dweight = 0, dbias = 0;
        x.each(c, [&](std::int64_t i) {
          const T dy = total(i);
          dbias += dy;
          dweight += dy * (in[i] - mean) * inverse;
        });
        const auto count = static_cast<T>(x.count());
        // In the order of a convolution's bias gradient: plane by plane.
        T sum = 0, plane = 0;
        std::int64_t left = x.pixels;
        x.each(c, [&](std::int64_t i) {
          const T h = (in[i] - mean) * inverse, dy = total(i);
          const T dx = weight * inverse * (dy - (dbias + h * dweight) / count);
          // Last, because results may share memory with operands.
          if (total_wanted) call.out(4)[i] = dy;
          call.out(0)[i] = dx;
          plane += dx;
          if (--left > 0) return;
          sum += plane;
          plane = 0;
          left = x.pixels;
        });
        call.out(1)[c] = dweight;
        call.out(2)[c] = dbias;
        if (sum_wanted) call.out(3)[c] = sum;
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
