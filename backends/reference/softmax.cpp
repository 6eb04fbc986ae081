// Softmax over rows, and its gradient.
#include <algorithm>
#include <array>
#include <cmath>

#include "backends/reference/body.hpp"

namespace assay::reference {
namespace {

template <typename T>
Body<T> softmax(const Context& context) {
  const std::int64_t columns = context.out(0).back(), rows = element_count(context.out(0)) / columns;
  ThreadPool& pool = context.pool;
  return {[=, &pool](const Call<T>& call) {
    pool.run(rows, std::max<std::int64_t>(1, grain / columns),
             [&](int, std::int64_t begin, std::int64_t end) {
               for (std::int64_t row = begin; row < end; ++row) {
                 const T* x = call.in(0) + row * columns;
                 T* y = call.out(0) + row * columns;
                 const T largest = *std::max_element(x, x + columns);
                 T sum = 0;
                 for (std::int64_t c = 0; c < columns; ++c) sum += y[c] = std::exp(x[c] - largest);
                 for (std::int64_t c = 0; c < columns; ++c) y[c] /= sum;
               }
             });
  }};
}

template <typename T>
Body<T> softmax_gradient(const Context& context) {
  const std::int64_t columns = context.out(0).back(), rows = element_count(context.out(0)) / columns;
  ThreadPool& pool = context.pool;
  return {[=, &pool](const Call<T>& call) {
    pool.run(rows, std::max<std::int64_t>(1, grain / columns),
             [&](int, std::int64_t begin, std::int64_t end) {
               for (std::int64_t row = begin; row < end; ++row) {
                 const T *y = call.in(0) + row * columns, *dy = call.in(1) + row * columns;
                 T* dx = call.out(0) + row * columns;
                 T sum = 0;
                 for (std::int64_t c = 0; c < columns; ++c) sum += dy[c] * y[c];
                 for (std::int64_t c = 0; c < columns; ++c) dx[c] = y[c] * (dy[c] - sum);
               }
             });
  }};
}

}  // namespace

std::span<const OpEntry> softmax_ops() {
  static constexpr std::array entries{
      OpEntry{"softmax", softmax<float>, softmax<double>},
      OpEntry{"softmax_gradient", softmax_gradient<float>, softmax_gradient<double>}};
  return entries;
}

}  // namespace assay::reference
