// Elementwise ops, and ops that move nothing.
#include <algorithm>
#include <array>

#include "backends/reference/body.hpp"

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
Body<T> add(const Context& context) {
  ThreadPool& pool = context.pool;
  const std::int64_t period = element_count(context.in(1));  // less than n if b is added to each of many
  return {
      [&pool, n = element_count(context.out(0)), period, relu = context.activation()](const Call<T>& call) {
        const T *a = call.in(0), *b = call.in(1);
        T* y = call.out(0);
        each<T>(pool, n, [=](std::int64_t i) {
          const T sum = a[i] + b[i % period];
          y[i] = relu && sum < T(0) ? T(0) : sum;
        });
      }};
}

template <typename T>
Body<T> multiply(const Context& context) {
  ThreadPool& pool = context.pool;
  const bool scaled = context.in(1) != context.in(0);
  return {[&pool, n = element_count(context.out(0)), scaled](const Call<T>& call) {
    const T *a = call.in(0), *b = call.in(1);
    T* y = call.out(0);
    each<T>(pool, n, [=](std::int64_t i) { y[i] = a[i] * b[scaled ? 0 : i]; });
  }};
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
  static constexpr std::array entries{OpEntry{"relu", relu<float>, relu<double>},
                                      OpEntry{"relu_gradient", relu_gradient<float>, relu_gradient<double>},
                                      OpEntry{"add", add<float>, add<double>},
                                      OpEntry{"multiply", multiply<float>, multiply<double>},
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
