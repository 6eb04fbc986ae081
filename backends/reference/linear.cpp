// Matrix products: matmul, and the three of a fully connected layer.
#include <algorithm>
#include <array>
#include <functional>

#include "backends/reference/body.hpp"
#include "backends/reference/gelu.hpp"
#include "backends/reference/gemm.hpp"

namespace assay::reference {
namespace {

// c (m, n) = a b. Each thread gets whole panels of columns and packs them itself.
template <typename T>
void product(ThreadPool& pool, std::int64_t m, std::int64_t n, std::int64_t k, View<T> a, View<T> b, T* c,
             bool accumulate, T* scratch) {
  constexpr std::int64_t panel = 16;
  pool.run((n + panel - 1) / panel, 2, [&](int, std::int64_t begin, std::int64_t end) {
    const std::int64_t first = begin * panel;
    const std::int64_t width = std::min(end * panel, n) - first;
    T* packed = scratch + first * k;
    pack<T>({b.data + first * b.column_stride, b.row_stride, b.column_stride}, width, k, packed);
    gemm<T>(m, width, k, a, packed, c + first, n, accumulate);
  });
}

// The fused activation of n elements.
template <typename T>
void activate(const std::string& activation, T* y, std::int64_t n) {
  if (activation == "relu") clip(y, n);
  if (activation == "gelu") std::transform(y, y + n, y, gelu<T>);
  if (activation == "gelu_tanh") std::transform(y, y + n, y, gelu_tanh<T>);
}

template <typename T>
Body<T> linear(const Context& context) {
  const std::int64_t inner = context.in(1)[1], outer = context.in(1)[0];
  const std::int64_t batch = element_count(context.in(0)) / inner;
  const bool bias = context.has_input(2);
  const bool residual = context.has_input(3);
  const auto activation = context.node.attributes.get_or("activation", std::string());
  ThreadPool& pool = context.pool;
  const auto run = [=, &pool](const Call<T>& call) {
    T* y = call.out(0);
    for (std::int64_t n = 0; n < batch; ++n) {
      if (bias) {
        std::copy_n(call.in(2), outer, y + n * outer);
      } else {
        std::fill_n(y + n * outer, outer, T(0));
      }
    }
    product<T>(pool, batch, outer, inner, {call.in(0), inner, 1}, {call.in(1), 1, inner}, y, true,
               call.scratch);
    if (residual) std::transform(y, y + batch * outer, call.in(3), y, std::plus<>());
    activate(activation, y, batch * outer);
  };
  return {run, packed_elements(outer, inner)};
}

template <typename T>
Body<T> linear_input_gradient(const Context& context) {
  const std::int64_t outer = context.in(1)[0], inner = context.in(1)[1];
  const std::int64_t batch = element_count(context.in(0)) / outer;
  const bool mask = context.has_input(2), addend = context.has_input(3);
  ThreadPool& pool = context.pool;
  const auto run = [=, &pool](const Call<T>& call) {
    T* const dx = call.out(0);
    product<T>(pool, batch, inner, outer, {call.in(0), outer, 1}, {call.in(1), inner, 1}, dx, false,
               call.scratch);
    if (addend) std::transform(dx, dx + batch * inner, call.in(3), dx, std::plus<>());
    if (mask) apply_mask(call.in(2), call.out(0), batch * inner);
  };
  return {run, packed_elements(inner, outer)};
}

template <typename T>
Body<T> linear_weight_gradient(const Context& context) {
  const std::int64_t inner = context.in(0).back(), outer = context.in(1).back();
  const std::int64_t batch = element_count(context.in(0)) / inner;
  const bool bias = context.wants(1);
  ThreadPool& pool = context.pool;
  const auto run = [=, &pool](const Call<T>& call) {
    const T* dy = call.in(1);
    product<T>(pool, outer, inner, batch, {dy, 1, outer}, {call.in(0), inner, 1}, call.out(0), false,
               call.scratch);
    if (!bias) return;
    std::fill_n(call.out(1), outer, T(0));
    for (std::int64_t n = 0; n < batch; ++n) {
      for (std::int64_t o = 0; o < outer; ++o) call.out(1)[o] += dy[n * outer + o];
    }
  };
  return {run, packed_elements(inner, batch)};
}

template <typename T>
Body<T> matmul(const Context& context) {
  const bool ta = context.node.attributes.get<bool>("transpose_a");
  const bool tb = context.node.attributes.get<bool>("transpose_b");
  const Shape& y = context.out(0);
  const std::int64_t m = y[y.size() - 2], n = y.back();
  const std::int64_t k = context.in(0)[y.size() - (ta ? 2 : 1)];
  const std::int64_t products = element_count(y) / (m * n);
  ThreadPool& pool = context.pool;
  const auto run = [=, &pool](const Call<T>& call) {
    for (std::int64_t p = 0; p < products; ++p) {
      const View<T> a{call.in(0) + p * m * k, ta ? 1 : k, ta ? m : 1};
      const View<T> b{call.in(1) + p * k * n, tb ? 1 : n, tb ? k : 1};
      product<T>(pool, m, n, k, a, b, call.out(0) + p * m * n, false, call.scratch);
    }
  };
  return {run, packed_elements(n, k)};
}

}  // namespace

std::span<const OpEntry> linear_ops() {
  static constexpr std::array entries{
      OpEntry{"linear", linear<float>, linear<double>, 2},
      OpEntry{"linear_input_gradient", linear_input_gradient<float>, linear_input_gradient<double>, 2},
      OpEntry{"linear_weight_gradient", linear_weight_gradient<float>, linear_weight_gradient<double>, 2}};
  return entries;
}

std::span<const OpEntry> matmul_ops() {
  static constexpr std::array entries{OpEntry{"matmul", matmul<float>, matmul<double>, 2}};
  return entries;
}

}  // namespace assay::reference
