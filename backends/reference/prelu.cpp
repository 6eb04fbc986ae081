// ReLU with a slope for each channel.
#include <array>

#include "backends/reference/body.hpp"

namespace assay::reference {
namespace {

// The slopes of x (N, C, ...) and how the elements lie that each is for.
struct Slopes {
  std::int64_t count, blocks, elements;  // of each slope: `blocks` times `elements` in a row

  explicit Slopes(const Context& context) {
    const Shape& x = context.in(0);
    count = context.in(1)[0];
    blocks = count == 1 ? 1 : x[0];
    elements = element_count(x) / count / blocks;
  }
  std::int64_t of(std::int64_t i) const { return i / elements % count; }
};

template <typename T>
Body<T> prelu(const Context& context) {
  const Slopes slopes(context);
  ThreadPool& pool = context.pool;
  return {[=, &pool, n = element_count(context.in(0))](const Call<T>& call) {
    const T *x = call.in(0), *slope = call.in(1);
    T* y = call.out(0);
    pool.run(n, grain, [=](int, std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) y[i] = x[i] > T(0) ? x[i] : slope[slopes.of(i)] * x[i];
    });
  }};
}

template <typename T>
Body<T> prelu_gradient(const Context& context) {
  const Slopes slopes(context);
  ThreadPool& pool = context.pool;
  const bool wants_slopes = context.wants(1), wants_x = context.wants(0);
  return {[=, &pool, n = element_count(context.in(0))](const Call<T>& call) {
    const T *x = call.in(0), *slope = call.in(1), *dy = call.in(2);
    if (T* dx = call.out(0); wants_x)
      pool.run(n, grain, [=](int, std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) dx[i] = x[i] > T(0) ? dy[i] : slope[slopes.of(i)] * dy[i];
      });
    if (T* dslope = call.out(1); wants_slopes)
      pool.run(slopes.count, 1, [=](int, std::int64_t begin, std::int64_t end) {
        for (std::int64_t c = begin; c < end; ++c) {
          double sum = 0;
          for (std::int64_t block = 0; block < slopes.blocks; ++block) {
            const std::int64_t first = (block * slopes.count + c) * slopes.elements;
            for (std::int64_t i = first; i < first + slopes.elements; ++i)
              if (!(x[i] > T(0))) sum += static_cast<double>(dy[i]) * static_cast<double>(x[i]);
          }
          dslope[c] = static_cast<T>(sum);
        }
      });
  }};
}

}  // namespace

std::span<const OpEntry> prelu_ops() {
  static constexpr std::array entries{
      OpEntry{"prelu", prelu<float>, prelu<double>},
      OpEntry{"prelu_gradient", prelu_gradient<float>, prelu_gradient<double>}};
  return entries;
}

}  // namespace assay::reference
