// Ops that only move elements: concat, slice, transpose.
#include <algorithm>
#include <array>

#include "backends/reference/body.hpp"

namespace assay::reference {
namespace {

std::size_t axis_of(const Context& context) {
  return static_cast<std::size_t>(context.node.attributes.get<std::int64_t>("axis"));
}
// The products of the dimensions before and after an axis.
std::int64_t before(const Shape& shape, std::size_t axis) {
  return element_count({shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(axis)});
}
std::int64_t behind(const Shape& shape, std::size_t axis) {
  return element_count({shape.begin() + static_cast<std::ptrdiff_t>(axis) + 1, shape.end()});
}

template <typename T>
Body<T> concat(const Context& context) {
  const std::size_t axis = axis_of(context);
  const std::int64_t rows = before(context.out(0), axis), inner = behind(context.out(0), axis);
  const std::int64_t whole = context.out(0)[axis] * inner;
  std::vector<std::int64_t> parts;
  for (const TensorType& x : context.inputs) parts.push_back(x.shape[axis] * inner);
  return {[=](const Call<T>& call) {
    for (std::int64_t row = 0; row < rows; ++row) {
      T* y = call.out(0) + row * whole;
      for (std::size_t i = 0; i < parts.size(); ++i)
        y = std::copy_n(call.in(i) + row * parts[i], parts[i], y);
    }
  }};
}

template <typename T>
Body<T> slice(const Context& context) {
  const std::size_t axis = axis_of(context);
  const std::int64_t rows = before(context.out(0), axis), inner = behind(context.out(0), axis);
  const std::int64_t whole = context.in(0)[axis] * inner, part = context.out(0)[axis] * inner;
  const std::int64_t first = context.node.attributes.get<std::int64_t>("begin") * inner;
  return {[=](const Call<T>& call) {
    for (std::int64_t row = 0; row < rows; ++row) {
      std::copy_n(call.in(0) + row * whole + first, part, call.out(0) + row * part);
    }
  }};
}

template <typename T>
Body<T> slice_gradient(const Context& context) {
  const std::size_t axis = axis_of(context);
  const std::int64_t rows = before(context.out(0), axis), inner = behind(context.out(0), axis);
  const std::int64_t whole = context.out(0)[axis] * inner, part = context.in(0)[axis] * inner;
  const std::int64_t first = context.node.attributes.get<std::int64_t>("begin") * inner;
  return {[=](const Call<T>& call) {
    for (std::int64_t row = 0; row < rows; ++row) {
      T* dx = std::fill_n(call.out(0) + row * whole, first, T(0));
      dx = std::copy_n(call.in(0) + row * part, part, dx);
      std::fill_n(dx, whole - first - part, T(0));
    }
  }};
}

template <typename T>
Body<T> transpose(const Context& context) {
  const auto& permutation = context.node.attributes.get<std::vector<std::int64_t>>("permutation");
  const Shape& x = context.in(0);
  const Shape y = context.out(0);
  Shape x_strides(x.size(), 1), strides;
  for (std::size_t d = x.size(); d-- > 1;) x_strides[d - 1] = x_strides[d] * x[d];
  for (const std::int64_t from : permutation) strides.push_back(x_strides[static_cast<std::size_t>(from)]);
  ThreadPool& pool = context.pool;
  return {[=, &pool](const Call<T>& call) {
    pool.run(element_count(y), grain, [&](int, std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        std::int64_t rest = i, from = 0;
        for (std::size_t d = y.size(); d-- > 0;) {
          from += rest % y[d] * strides[d];
          rest /= y[d];
        }
        call.out(0)[i] = call.in(0)[from];
      }
    });
  }};
}

}  // namespace

std::span<const OpEntry> move_ops() {
  static constexpr std::array entries{
      OpEntry{"concat", concat<float>, concat<double>}, OpEntry{"slice", slice<float>, slice<double>},
      OpEntry{"slice_gradient", slice_gradient<float>, slice_gradient<double>},
      OpEntry{"transpose", transpose<float>, transpose<double>}};
  return entries;
}

}  // namespace assay::reference
