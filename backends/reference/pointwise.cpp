// Elementwise ops, and ops that move nothing.
#include <algorithm>
#include <array>

#include "backends/reference/body.hpp"
#include "harness/graph/broadcast.hpp"

namespace assay::reference {
namespace {

// y[i] = f(i) over all elements of the first result.
template <typename T, typename Function>
void each(ThreadPool& pool, std::int64_t elements, const Function& f) {
  pool.run(elements, grain, [&](int, std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) f(i);
  });
}

template <typename T>
Body<T> relu(const Context& context) {
  ThreadPool& pool = context.pool;
  return {[&pool, n = element_count(context.out(0))](const Call<T>& call) {
    const T* x = call.in(0);
    T* y = call.out(0);
    each<T>(pool, n, [=](std::int64_t i) { y[i] = x[i] < T(0) ? T(0) : x[i]; });
  }};
}

template <typename T>
Body<T> relu_gradient(const Context& context) {
  ThreadPool& pool = context.pool;
  return {[&pool, n = element_count(context.out(0))](const Call<T>& call) {
    const T *y = call.in(0), *dy = call.in(1);
    T* dx = call.out(0);
    each<T>(pool, n, [=](std::int64_t i) { dx[i] = y[i] > T(0) ? dy[i] : T(0); });
  }};
}

template <typename T>
struct Sum {
  T operator()(T a, T b) const { return a + b; }
};
template <typename T>
struct ClippedSum {
  T operator()(T a, T b) const { return a + b < T(0) ? T(0) : a + b; }
};
template <typename T>
struct Difference {
  T operator()(T a, T b) const { return a - b; }
};
template <typename T>
struct Product {
  T operator()(T a, T b) const { return a * b; }
};
template <typename T>
struct Quotient {
  T operator()(T a, T b) const { return a / b; }
};

// y[begin, end) = F(a, b), along the last dimension of the walk.
template <typename T, typename F>
void fold(const Broadcast& walk, const T* a, const T* b, T* y, std::int64_t begin, std::int64_t end) {
  const std::int64_t inner = walk.sizes.back(), step_a = walk.a.back(), step_b = walk.b.back();
  for (std::int64_t i = begin; i < end;) {
    const std::int64_t n = std::min(end - i, inner - i % inner);
    std::int64_t at_a = 0, at_b = 0, rest = i;
    for (std::size_t d = walk.sizes.size(); d-- > 0; rest /= walk.sizes[d]) {
      at_a += rest % walk.sizes[d] * walk.a[d];
      at_b += rest % walk.sizes[d] * walk.b[d];
    }
    for (std::int64_t k = 0; k < n; ++k) y[i + k] = F()(a[at_a + k * step_a], b[at_b + k * step_b]);
    i += n;
  }
}

template <typename T, typename F>
Body<T> binary(const Context& context) {
  ThreadPool& pool = context.pool;
  return {[&pool, n = element_count(context.out(0)),
           walk = broadcast(context.in(0), context.in(1))](const Call<T>& call) {
    const T *a = call.in(0), *b = call.in(1);
    T* y = call.out(0);
    pool.run(n, grain,
             [&](int, std::int64_t begin, std::int64_t end) { fold<T, F>(walk, a, b, y, begin, end); });
  }};
}

template <typename T>
Body<T> add(const Context& context) {
  return context.activation() ? binary<T, ClippedSum<T>>(context) : binary<T, Sum<T>>(context);
}

// Without a batch dimension: one sum, in the order of the elements.
template <typename T>
Body<T> dot(const Context& context) {
  return {[n = element_count(context.in(0))](const Call<T>& call) {
    T sum = 0;
    for (std::int64_t i = 0; i < n; ++i) sum += call.in(0)[i] * call.in(1)[i];
    call.out(0)[0] = sum;
  }};
}

// flatten, reshape, cast, from_array: a change of dtype, if any, happens in the conversions to and from T.
template <typename T>
Body<T> copy(const Context& context) {
  ThreadPool& pool = context.pool;
  return {[&pool, n = element_count(context.out(0))](const Call<T>& call) {
    const T* x = call.in(0);
    T* y = call.out(0);
    if (x != y) each<T>(pool, n, [=](std::int64_t i) { y[i] = x[i]; });
  }};
}

// The numbers of a list by tag: 0 is an integer, any other tag is a real number.
template <typename T>
Body<T> from_list(const Context& context) {
  ThreadPool& pool = context.pool;
  return {[&pool, n = element_count(context.out(0))](const Call<T>& call) {
    const T* numbers = call.in(0);
    T* y = call.out(0);
    each<T>(pool, n, [=](std::int64_t i) {
      const T value = numbers[2 * i + 1];
      y[i] = numbers[2 * i] == T(0) ? static_cast<T>(static_cast<std::int64_t>(value)) : value;
    });
  }};
}

template <typename T>
Body<T> constant(const Context& context) {
  const auto value = static_cast<T>(context.node.attributes.number("value"));
  return {[value, n = element_count(context.out(0))](const Call<T>& call) {
    std::fill_n(call.out(0), n, value);
  }};
}

}  // namespace

std::span<const OpEntry> pointwise_ops() {
  static constexpr std::array entries{
      OpEntry{"relu", relu<float>, relu<double>},
      OpEntry{"relu_gradient", relu_gradient<float>, relu_gradient<double>},
      OpEntry{"add", add<float>, add<double>},
      OpEntry{"subtract", binary<float, Difference<float>>, binary<double, Difference<double>>},
      OpEntry{"multiply", binary<float, Product<float>>, binary<double, Product<double>>},
      OpEntry{"divide", binary<float, Quotient<float>>, binary<double, Quotient<double>>},
      OpEntry{"dot", dot<float>, dot<double>, 2},
      OpEntry{"flatten", copy<float>, copy<double>},
      OpEntry{"reshape", copy<float>, copy<double>},
      OpEntry{"cast", copy<float>, copy<double>},
      OpEntry{"from_array", copy<float>, copy<double>},
      OpEntry{"from_list", from_list<float>, from_list<double>},
      OpEntry{"constant", constant<float>, constant<double>}};
  return entries;
}

}  // namespace assay::reference
