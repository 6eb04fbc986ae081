// Layer norm and RMS norm: over the last dimension.
#include <algorithm>
#include <array>
#include <cmath>

#include "backends/reference/body.hpp"

namespace assay::reference {
namespace {

struct Rows {
  std::int64_t count, width;
  double epsilon = 0;

  explicit Rows(const Context& context)
      : count(element_count(context.in(0)) / context.in(0).back()), width(context.in(0).back()) {
    if (context.node.attributes.has("epsilon")) epsilon = context.node.attributes.number("epsilon");
  }
};

// Calls f(row) for each row, in any order.
template <typename Function>
void each_row(ThreadPool& pool, const Rows& rows, const Function& f) {
  pool.run(rows.count, std::max<std::int64_t>(1, grain / rows.width),
           [&](int, std::int64_t begin, std::int64_t end) {
             for (std::int64_t row = begin; row < end; ++row) f(row);
           });
}

template <typename T>
Body<T> layer_norm(const Context& context) {
  const Rows rows(context);
  const bool keeps_mean = context.wants(1), keeps_deviation = context.wants(2);
  ThreadPool& pool = context.pool;
  return {[=, &pool](const Call<T>& call) {
    each_row(pool, rows, [&](std::int64_t row) {
      const T* x = call.in(0) + row * rows.width;
      T* y = call.out(0) + row * rows.width;
      T mean = 0, variance = 0;
      for (std::int64_t i = 0; i < rows.width; ++i) mean += x[i];
      mean /= static_cast<T>(rows.width);
      for (std::int64_t i = 0; i < rows.width; ++i) variance += (x[i] - mean) * (x[i] - mean);
      variance /= static_cast<T>(rows.width);
      const T inverse = T(1) / std::sqrt(variance + static_cast<T>(rows.epsilon));
      for (std::int64_t i = 0; i < rows.width; ++i)
        y[i] = (x[i] - mean) * inverse * call.in(1)[i] + call.in(2)[i];
      if (keeps_mean) call.out(1)[row] = mean;
      if (keeps_deviation) call.out(2)[row] = inverse;
    });
  }};
}

template <typename T>
Body<T> rms_norm(const Context& context) {
  const Rows rows(context);
  const bool keeps_root = context.wants(1);
  ThreadPool& pool = context.pool;
  return {[=, &pool](const Call<T>& call) {
    each_row(pool, rows, [&](std::int64_t row) {
      const T* x = call.in(0) + row * rows.width;
      T* y = call.out(0) + row * rows.width;
      T square = 0;
      for (std::int64_t i = 0; i < rows.width; ++i) square += x[i] * x[i];
      square /= static_cast<T>(rows.width);
      const T inverse = T(1) / std::sqrt(square + static_cast<T>(rows.epsilon));
      for (std::int64_t i = 0; i < rows.width; ++i) y[i] = x[i] * inverse * call.in(1)[i];
      if (keeps_root) call.out(1)[row] = inverse;
    });
  }};
}

// The gradients of scale and, unless it is nullptr, of shift: sums over all rows. `mean` is nullptr for a norm
// that subtracts none.
template <typename T>
void parameter_gradients(ThreadPool& pool, const Rows& rows, const T* x, const T* dy, const T* mean,
                         const T* inverse, T* scale_gradient, T* shift_gradient) {
  pool.run(rows.width, std::max<std::int64_t>(1, grain / rows.count),
           [&](int, std::int64_t begin, std::int64_t end) {
             std::fill(scale_gradient + begin, scale_gradient + end, T(0));
             if (shift_gradient != nullptr) std::fill(shift_gradient + begin, shift_gradient + end, T(0));
             for (std::int64_t row = 0; row < rows.count; ++row) {
               const T centre = mean == nullptr ? T(0) : mean[row];
               for (std::int64_t i = begin; i < end; ++i) {
                 const T gradient = dy[row * rows.width + i];
                 scale_gradient[i] += gradient * (x[row * rows.width + i] - centre) * inverse[row];
                 if (shift_gradient != nullptr) shift_gradient[i] += gradient;
               }
             }
           });
}

// dx may overwrite x, dy or addend.
template <typename T>
Body<T> layer_norm_gradient(const Context& context) {
  const Rows rows(context);
  const bool adds = context.has_input(5);
  ThreadPool& pool = context.pool;
  return {[=, &pool](const Call<T>& call) {
    const T *mean = call.in(3), *inverse = call.in(4);
    parameter_gradients(pool, rows, call.in(0), call.in(2), mean, inverse, call.out(1), call.out(2));
    each_row(pool, rows, [&](std::int64_t row) {
      const T *x = call.in(0) + row * rows.width, *dy = call.in(2) + row * rows.width, *scale = call.in(1);
      T* dx = call.out(0) + row * rows.width;
      T sum = 0, product = 0;
      for (std::int64_t i = 0; i < rows.width; ++i) {
        const T g = dy[i] * scale[i];
        sum += g;
        product += g * (x[i] - mean[row]) * inverse[row];
      }
      sum /= static_cast<T>(rows.width);
      product /= static_cast<T>(rows.width);
      const T* addend = adds ? call.in(5) + row * rows.width : nullptr;
      for (std::int64_t i = 0; i < rows.width; ++i) {
        const T d = inverse[row] * (dy[i] * scale[i] - sum - (x[i] - mean[row]) * inverse[row] * product);
        dx[i] = addend == nullptr ? d : d + addend[i];
      }
    });
  }};
}

// dx may overwrite x, dy or addend.
template <typename T>
Body<T> rms_norm_gradient(const Context& context) {
  const Rows rows(context);
  const bool adds = context.has_input(4);
  ThreadPool& pool = context.pool;
  return {[=, &pool](const Call<T>& call) {
    const T* inverse = call.in(3);
    parameter_gradients<T>(pool, rows, call.in(0), call.in(2), nullptr, inverse, call.out(1), nullptr);
    each_row(pool, rows, [&](std::int64_t row) {
      const T *x = call.in(0) + row * rows.width, *dy = call.in(2) + row * rows.width, *scale = call.in(1);
      T* dx = call.out(0) + row * rows.width;
      T product = 0;
      for (std::int64_t i = 0; i < rows.width; ++i) product += dy[i] * scale[i] * x[i] * inverse[row];
      product /= static_cast<T>(rows.width);
      const T* addend = adds ? call.in(4) + row * rows.width : nullptr;
      for (std::int64_t i = 0; i < rows.width; ++i) {
        const T d = inverse[row] * (dy[i] * scale[i] - x[i] * inverse[row] * product);
        dx[i] = addend == nullptr ? d : d + addend[i];
      }
    });
  }};
}

}  // namespace

std::span<const OpEntry> row_norm_ops() {
  static constexpr std::array entries{
      OpEntry{"layer_norm", layer_norm<float>, layer_norm<double>},
      OpEntry{"layer_norm_gradient", layer_norm_gradient<float>, layer_norm_gradient<double>},
      OpEntry{"rms_norm", rms_norm<float>, rms_norm<double>},
      OpEntry{"rms_norm_gradient", rms_norm_gradient<float>, rms_norm_gradient<double>}};
  return entries;
}

}  // namespace assay::reference
