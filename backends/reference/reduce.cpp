// Reductions over given dimensions, and ops made of them. Each element of the result is one sum in row-major
// order.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "backends/reference/body.hpp"

namespace assay::reference {
namespace {

// Maps an element of the whole tensor to its element of the reduced tensor.
class Reduced {
 public:
  Reduced(const Shape& whole, std::span<const std::int64_t> axes) : whole_(whole), strides_(whole.size(), 0) {
    std::int64_t stride = 1;
    for (std::size_t d = whole.size(); d-- > 0;) {
      if (std::ranges::find(axes, static_cast<std::int64_t>(d)) != axes.end()) continue;
      strides_[d] = stride;
      stride *= whole[d];
    }
    elements_ = stride;
  }

  std::int64_t elements() const { return elements_; }
  // Calls f(i, r) for each element i of the whole tensor in row-major order; r is its reduced element.
  template <typename F>
  void each(const F& f) const {
    std::vector<std::int64_t> index(whole_.size(), 0);
    const std::int64_t count = element_count(whole_);
    std::int64_t r = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      f(i, r);
      for (std::size_t d = whole_.size(); d-- > 0;) {
        r += strides_[d];
        if (++index[d] < whole_[d]) break;
        r -= strides_[d] * whole_[d];
        index[d] = 0;
      }
    }
  }

 private:
  Shape whole_;
  std::vector<std::int64_t> strides_;
  std::int64_t elements_ = 1;
};

std::span<const std::int64_t> axes_of(const Context& context) {
  return context.node.attributes.get<std::vector<std::int64_t>>("axes");
}

template <typename T>
Body<T> reduce(const Context& context) {
  const Reduced reduced(context.in(0), axes_of(context));
  const auto& kind = context.node.attributes.get<std::string>("kind");
  const bool max = kind == "max";
  const T scale = kind == "mean"
                      ? static_cast<T>(reduced.elements()) / static_cast<T>(element_count(context.in(0)))
                      : T(1);
  return {[=](const Call<T>& call) {
    const T* x = call.in(0);
    T* y = call.out(0);
    std::fill_n(y, reduced.elements(), max ? -std::numeric_limits<T>::infinity() : T(0));
    if (max) {
      reduced.each([=](std::int64_t i, std::int64_t r) { y[r] = std::max(y[r], x[i]); });
      return;
    }
    reduced.each([=](std::int64_t i, std::int64_t r) { y[r] += x[i]; });
    for (std::int64_t r = 0; r < reduced.elements(); ++r) y[r] *= scale;
  }};
}

template <typename T>
Body<T> reduce_gradient(const Context& context) {
  const Reduced reduced(context.out(0), axes_of(context));
  const auto& kind = context.node.attributes.get<std::string>("kind");
  const bool max = kind == "max";
  const T scale = kind == "mean"
                      ? static_cast<T>(reduced.elements()) / static_cast<T>(element_count(context.out(0)))
                      : T(1);
  const auto run = [=](const Call<T>& call) {
    const T* dy = call.in(0);
    T* dx = call.out(0);
    if (!max) {
      reduced.each([=](std::int64_t i, std::int64_t r) { dx[i] = dy[r] * scale; });
      return;
    }
    const T *x = call.in(1), *y = call.in(2);
    T* ties = call.scratch;
    std::fill_n(ties, reduced.elements(), T(0));
    reduced.each([=](std::int64_t i, std::int64_t r) { ties[r] += x[i] == y[r] ? T(1) : T(0); });
    reduced.each([=](std::int64_t i, std::int64_t r) { dx[i] = x[i] == y[r] ? dy[r] / ties[r] : T(0); });
  };
  return {run, max ? reduced.elements() : 0};
}

template <typename T>
Body<T> normalise(const Context& context) {
  const Reduced reduced(context.in(0), axes_of(context));
  const auto epsilon = static_cast<T>(context.node.attributes.number("epsilon"));
  const bool save = context.wants(1);
  const auto run = [=](const Call<T>& call) {
    const T* x = call.in(0);
    T *y = call.out(0), *norm = save ? call.out(1) : call.scratch;
    std::fill_n(norm, reduced.elements(), T(0));
    reduced.each([=](std::int64_t i, std::int64_t r) { norm[r] += x[i] * x[i]; });
    for (std::int64_t r = 0; r < reduced.elements(); ++r) norm[r] = std::sqrt(norm[r]);
    reduced.each([=](std::int64_t i, std::int64_t r) { y[i] = x[i] / std::max(norm[r], epsilon); });
  };
  return {run, save ? 0 : reduced.elements()};
}

template <typename T>
Body<T> normalise_gradient(const Context& context) {
  const Reduced reduced(context.in(0), axes_of(context));
  const auto epsilon = static_cast<T>(context.node.attributes.number("epsilon"));
  const auto run = [=](const Call<T>& call) {
    const T *y = call.in(0), *norm = call.in(1), *dy = call.in(2);
    T *dx = call.out(0), *sum = call.scratch;
    std::fill_n(sum, reduced.elements(), T(0));
    reduced.each([=](std::int64_t i, std::int64_t r) { sum[r] += dy[i] * y[i]; });
    reduced.each([=](std::int64_t i, std::int64_t r) {
      dx[i] = norm[r] > epsilon ? (dy[i] - y[i] * sum[r]) / norm[r] : dy[i] / epsilon;
    });
  };
  return {run, reduced.elements()};
}

}  // namespace

std::span<const OpEntry> reduce_ops() {
  static constexpr std::array entries{
      OpEntry{"normalise", normalise<float>, normalise<double>},
      OpEntry{"normalise_gradient", normalise_gradient<float>, normalise_gradient<double>},
      OpEntry{"reduce", reduce<float>, reduce<double>},
      OpEntry{"reduce_gradient", reduce_gradient<float>, reduce_gradient<double>}};
  return entries;
}

}  // namespace assay::reference
