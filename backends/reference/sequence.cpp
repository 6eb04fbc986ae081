// Ops on sequences next to attention: rotary positions, masks, the mean over steps, and the caches of task
// decode.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "backends/reference/body.hpp"

namespace assay::reference {
namespace {

template <typename T>
Body<T> rotary(const Context& context) {
  const Shape& x = context.in(0);
  const Attributes& attributes = context.node.attributes;
  const std::int64_t samples = x[0], steps = x[1], heads = x[2], width = x[3], half = width / 2;
  const bool interleaved = attributes.get<bool>("interleaved");
  const double sign = attributes.get_or("inverse", false) ? -1 : 1, base = attributes.number("base");
  std::vector<T> cosines, sines;  // (steps, half)
  for (std::int64_t s = 0; s < steps; ++s) {
    for (std::int64_t i = 0; i < half; ++i) {
      const double power = -2.0 * static_cast<double>(i) / static_cast<double>(width);
      const double angle = sign * static_cast<double>(s) * std::pow(base, power);
      cosines.push_back(static_cast<T>(std::cos(angle)));
      sines.push_back(static_cast<T>(std::sin(angle)));
    }
  }
  ThreadPool& pool = context.pool;
  return {[=, &pool](const Call<T>& call) {
    pool.run(samples * steps, std::max<std::int64_t>(1, grain / (heads * width)),
             [&](int, std::int64_t begin, std::int64_t end) {
               for (std::int64_t place = begin; place < end; ++place) {
                 const std::int64_t angles = place % steps * half;
                 for (std::int64_t head = place * heads; head < (place + 1) * heads; ++head) {
                   for (std::int64_t i = 0; i < half; ++i) {
                     const std::int64_t first = head * width + (interleaved ? 2 * i : i);
                     const std::int64_t second = first + (interleaved ? 1 : half);
                     const T cosine = cosines[static_cast<std::size_t>(angles + i)];
                     const T sine = sines[static_cast<std::size_t>(angles + i)];
                     const T u = call.in(0)[first], w = call.in(0)[second];
                     call.out(0)[first] = u * cosine - w * sine;
                     call.out(0)[second] = u * sine + w * cosine;
                   }
                 }
               }
             });
  }};
}

template <typename T>
Body<T> padding_mask(const Context& context) {
  const auto padding = context.node.attributes.get<std::int64_t>("padding");
  return {[padding, n = element_count(context.out(0))](const Call<T>& call) {
    for (std::int64_t i = 0; i < n; ++i)
      call.out(0)[i] = call.integers(0)[i] == padding ? -std::numeric_limits<T>::infinity() : T(0);
  }};
}

// Ops of task decode. A place outside of the tokens or the cache is left out.
template <typename T>
Body<T> tokens_at(const Context& context) {
  const std::int64_t samples = context.in(0)[0], all = context.in(0)[1], length = context.out(0)[1];
  return {[=](const Call<T>& call) {
    const std::int64_t first = call.integers(1)[0];
    for (std::int64_t n = 0; n < samples; ++n) {
      for (std::int64_t i = 0; i < length; ++i) {
        const std::int64_t place = first + i;
        call.indices(0)[n * length + i] = place < 0 || place >= all ? -1 : call.integers(0)[n * all + place];
      }
    }
  }};
}

template <typename T>
Body<T> cache_write(const Context& context) {
  const Shape& cache = context.in(0);
  const std::int64_t samples = cache[0], places = cache[1], width = cache[2] * cache[3];
  const std::int64_t steps = context.in(1)[1];
  return {[=](const Call<T>& call) {
    if (call.out(0) != call.in(0)) std::copy_n(call.in(0), samples * places * width, call.out(0));
    const std::int64_t first = call.integers(2)[0];
    for (std::int64_t n = 0; n < samples; ++n) {
      for (std::int64_t s = 0; s < steps; ++s) {
        const std::int64_t place = first + s;
        if (place < 0 || place >= places) continue;
        std::copy_n(call.in(1) + (n * steps + s) * width, width, call.out(0) + (n * places + place) * width);
      }
    }
  }};
}

template <typename T>
Body<T> cache_mask(const Context& context) {
  const std::int64_t queries = context.out(0)[2], keys = context.out(0)[3];
  return {[=](const Call<T>& call) {
    for (std::int64_t s = 0; s < queries; ++s) {
      for (std::int64_t t = 0; t < keys; ++t)
        call.out(0)[s * keys + t] = t <= call.integers(0)[0] + s ? T(0) : -std::numeric_limits<T>::infinity();
    }
  }};
}

template <typename T>
Body<T> advance(const Context& context) {
  const auto by = static_cast<std::int32_t>(context.node.attributes.get<std::int64_t>("by"));
  return {[by](const Call<T>& call) { call.indices(0)[0] = call.integers(0)[0] + by; }};
}

// The steps of one sample that count, from its mask or without one.
template <typename T>
class Counted {
 public:
  Counted(const T* mask, std::int64_t sample, std::int64_t steps)
      : mask_(mask == nullptr ? nullptr : mask + sample * steps) {
    for (std::int64_t t = 0; t < steps; ++t) count_ += has(t) ? 1 : 0;
  }
  bool has(std::int64_t t) const {
    return mask_ == nullptr || mask_[t] != -std::numeric_limits<T>::infinity();
  }
  // 1 / count; 0 if no step counts.
  T share() const { return count_ == 0 ? T(0) : T(1) / static_cast<T>(count_); }

 private:
  const T* mask_;
  std::int64_t count_ = 0;
};

template <typename T>
Body<T> mean_pool(const Context& context) {
  const Shape& x = context.in(0);
  const std::int64_t samples = x[0], steps = x[1], width = x[2];
  const bool masked = context.has_input(1);
  ThreadPool& pool = context.pool;
  return {[=, &pool](const Call<T>& call) {
    pool.run(samples, std::max<std::int64_t>(1, grain / (steps * width)),
             [&](int, std::int64_t begin, std::int64_t end) {
               for (std::int64_t n = begin; n < end; ++n) {
                 const Counted<T> counted(masked ? call.in(1) : nullptr, n, steps);
                 T* y = call.out(0) + n * width;
                 std::fill_n(y, width, T(0));
                 for (std::int64_t t = 0; t < steps; ++t) {
                   if (!counted.has(t)) continue;
                   for (std::int64_t d = 0; d < width; ++d) y[d] += call.in(0)[(n * steps + t) * width + d];
                 }
                 for (std::int64_t d = 0; d < width; ++d) y[d] *= counted.share();
               }
             });
  }};
}

template <typename T>
Body<T> mean_pool_gradient(const Context& context) {
  const Shape& dx = context.out(0);
  const std::int64_t samples = dx[0], steps = dx[1], width = dx[2];
  const bool masked = context.has_input(1);
  ThreadPool& pool = context.pool;
  return {[=, &pool](const Call<T>& call) {
    pool.run(samples, std::max<std::int64_t>(1, grain / (steps * width)),
             [&](int, std::int64_t begin, std::int64_t end) {
               for (std::int64_t n = begin; n < end; ++n) {
                 const Counted<T> counted(masked ? call.in(1) : nullptr, n, steps);
                 for (std::int64_t t = 0; t < steps; ++t) {
                   const T share = counted.has(t) ? counted.share() : T(0);
                   for (std::int64_t d = 0; d < width; ++d)
                     call.out(0)[(n * steps + t) * width + d] = call.in(0)[n * width + d] * share;
                 }
               }
             });
  }};
}

}  // namespace

std::span<const OpEntry> sequence_ops() {
  static constexpr std::array entries{
      OpEntry{"rotary", rotary<float>, rotary<double>},
      OpEntry{"padding_mask", padding_mask<float>, padding_mask<double>},
      OpEntry{"tokens_at", tokens_at<float>, tokens_at<double>},
      OpEntry{"cache_write", cache_write<float>, cache_write<double>},
      OpEntry{"cache_mask", cache_mask<float>, cache_mask<double>},
      OpEntry{"advance", advance<float>, advance<double>},
      OpEntry{"mean_pool", mean_pool<float>, mean_pool<double>},
      OpEntry{"mean_pool_gradient", mean_pool_gradient<float>, mean_pool_gradient<double>}};
  return entries;
}

}  // namespace assay::reference
