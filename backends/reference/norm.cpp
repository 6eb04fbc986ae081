// Batch normalisation: a channel belongs to one thread, so the order of its sums is fixed.
#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

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
  const std::array<bool, 6> wanted{
      true, context.wants(1), context.wants(2), context.wants(3), context.wants(4), context.wants(5)};
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
          if (wanted[5]) call.bytes_out(5)[i] = out[i] > T(0) ? 1 : 0;
        });
        if (!training) continue;
        if (wanted[1]) call.out(1)[c] = mean;
        if (wanted[2]) call.out(2)[c] = inverse;
        if (wanted[3]) call.out(3)[c] = momentum * call.in(3)[c] + (T(1) - momentum) * mean;
        if (wanted[4]) call.out(4)[c] = momentum * call.in(4)[c] + (T(1) - momentum) * variance;
      }
    });
  };
  Body<T> body{run};
  if (wanted[5]) body.opaque_bytes = {0, 0, 0, 0, 0, element_count(context.in(0))};
  return body;
}

template <typename T>
Body<T> running_statistics(const Context& context) {
  const Attributes& attributes = context.node.attributes;
  const auto epsilon = static_cast<T>(attributes.number("epsilon"));
  const auto momentum = static_cast<T>(attributes.number("momentum"));
  std::vector<std::int64_t> channels;
  for (std::size_t i = 0; i < context.inputs.size(); i += 4) channels.push_back(context.inputs[i].elements());
  return {[=](const Call<T>& call) {
    for (std::size_t g = 0; g < channels.size(); ++g) {
      const T *mean = call.in(4 * g), *inverse_std = call.in(4 * g + 1);
      const T *old_mean = call.in(4 * g + 2), *old_variance = call.in(4 * g + 3);
      for (std::int64_t c = 0; c < channels[g]; ++c) {
        const T variance = std::max(T(1) / (inverse_std[c] * inverse_std[c]) - epsilon, T(0));
        call.out(2 * g)[c] = momentum * old_mean[c] + (T(1) - momentum) * mean[c];
        call.out(2 * g + 1)[c] = momentum * old_variance[c] + (T(1) - momentum) * variance;
      }
    }
  }};
}

template <typename T>
Body<T> batch_norm_gradient(const Context& context) {
  const Channels x(context.in(0));
  const bool recomputed = context.has_input(5), activated = context.has_input(6),
             addend = context.has_input(7), masked = context.has_input(8);
  const bool total_wanted = context.wants(3);
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
          if (masked && call.bytes(8)[i] == 0) dy = T(0);
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
        x.each(c, [&](std::int64_t i) {
          const T h = (in[i] - mean) * inverse, dy = total(i);
          // Last, because results may share memory with operands.
          if (total_wanted) call.out(3)[i] = dy;
          call.out(0)[i] = weight * inverse * (dy - (dbias + h * dweight) / count);
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
      OpEntry{"batch_norm_gradient", batch_norm_gradient<float>, batch_norm_gradient<double>},
      OpEntry{"running_statistics", running_statistics<float>, running_statistics<double>}};
  return entries;
}

}  // namespace assay::reference
