// Local response norm over neighbouring channels, with one thread per element of the result, in both layouts.
#include "backends/cuda/kernels/divisor.hpp"
#include "backends/cuda/lowering.hpp"

namespace assay::cuda {
namespace {

struct NeighbourChannels {
  std::int64_t count, elements;
  Strides strides;
  std::int64_t reach;       // channels on each side
  float alpha, beta, bias;  // alpha is divided by the size

  // The channel of an element.
  ASSAY_HD std::int64_t channel(std::int64_t i) const { return i / strides.c % count; }
  ASSAY_HD std::int64_t first(std::int64_t c) const { return larger(c - reach, 0); }
  ASSAY_HD std::int64_t end(std::int64_t c) const { return smaller(c + reach + 1, count); }

  // That of channel c at the place of element i, whose channel is `from`.
  template <typename T>
  ASSAY_HD float scale(const T* x, std::int64_t i, std::int64_t from, std::int64_t c) const {
    float sum = 0;
    for (std::int64_t k = first(c); k < end(c); ++k) {
      const float value = widen(x[i + (k - from) * strides.c]);
      sum += value * value;
    }
    return bias + alpha * sum;
  }
};

template <typename T>
struct ResponseNorm {
  NeighbourChannels channels;
  const T* x;
  T* y;
  ASSAY_HD void operator()(std::int64_t i) const {
    const std::int64_t c = channels.channel(i);
    y[i] = narrow<T>(widen(x[i]) * powf(channels.scale(x, i, c, c), -channels.beta));
  }
};

template <typename T>
struct ResponseNormGradient {
  NeighbourChannels channels;
  const T *x, *dy;
  T* dx;
  ASSAY_HD void operator()(std::int64_t i) const {
    const std::int64_t c = channels.channel(i);
    float others = 0;
    for (std::int64_t k = channels.first(c); k < channels.end(c); ++k) {
      const std::int64_t at = i + (k - c) * channels.strides.c;
      others += widen(dy[at]) * widen(x[at]) * powf(channels.scale(x, i, c, k), -channels.beta - 1);
    }
    const float own = widen(dy[i]) * powf(channels.scale(x, i, c, c), -channels.beta);
    dx[i] = narrow<T>(own - 2 * channels.alpha * channels.beta * widen(x[i]) * others);
  }
};

NeighbourChannels neighbours_of(const Request& request, Layout layout) {
  const Shape& x = request.in(0);
  const std::int64_t size = request.integer("size");
  return {x[1],
          element_count(x),
          strides_of(x, layout),
          size / 2,
          request.number("alpha") / static_cast<float>(size),
          request.number("beta"),
          request.number("bias")};
}

Lowered lower_response_norm(const Request& request) {
  const Layout layout = request.follow({0});
  Lowered lowered = draft(request, layout);
  const Stream stream = request.context.device.stream();
  const NeighbourChannels channels = neighbours_of(request, layout);
  lowered.kernel = with_type(request.inputs[0].dtype, [&]<typename T>(T) {
    return make_kernel(
        [=](const Operands& at) {
          for_each(stream, channels.elements, ResponseNorm<T>{channels, at.in<T>(0), at.out<T>(0)});
        },
        "own:local_response_norm");
  });
  return lowered;
}

Lowered lower_response_norm_gradient(const Request& request) {
  const Layout layout = request.follow({0, 1});
  Lowered lowered = draft(request, layout);
  const Stream stream = request.context.device.stream();
  const NeighbourChannels channels = neighbours_of(request, layout);
  lowered.kernel = with_type(request.inputs[0].dtype, [&]<typename T>(T) {
    return make_kernel(
        [=](const Operands& at) {
          for_each(stream, channels.elements,
                   ResponseNormGradient<T>{channels, at.in<T>(0), at.in<T>(1), at.out<T>(0)});
        },
        "own:local_response_norm");
  });
  return lowered;
}

}  // namespace

std::span<const OpEntry> local_response_norm_ops() {
  static constexpr std::array entries{OpEntry{"local_response_norm", lower_response_norm},
                                      OpEntry{"local_response_norm_gradient", lower_response_norm_gradient}};
  return entries;
}

}  // namespace assay::cuda
