// Elementwise activations and their gradients.
#include <array>
#include <cmath>

#include "backends/reference/body.hpp"
#include "backends/reference/gelu.hpp"

namespace assay::reference {
namespace {

// y = f(x)
template <typename T, typename Function>
Body<T> map_by(const Context& context, Function f) {
  ThreadPool& pool = context.pool;
  return {[&pool, f, n = element_count(context.out(0))](const Call<T>& call) {
    const T* x = call.in(0);
    T* y = call.out(0);
    pool.run(n, grain, [=](int, std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) y[i] = f(x[i]);
    });
  }};
}
template <typename T, T (*F)(T)>
Body<T> map(const Context& context) {
  return map_by<T>(context, F);
}

// dx = dy * f(x or y)
template <typename T, typename Function>
Body<T> slope_by(const Context& context, Function f) {
  ThreadPool& pool = context.pool;
  return {[&pool, f, n = element_count(context.out(0))](const Call<T>& call) {
    const T *at = call.in(0), *dy = call.in(1);
    T* dx = call.out(0);
    pool.run(n, grain, [=](int, std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) dx[i] = dy[i] * f(at[i]);
    });
  }};
}
template <typename T, T (*F)(T)>
Body<T> slope(const Context& context) {
  return slope_by<T>(context, F);
}

template <typename T>
T gelu_slope(T x) {
  const T density = T(0.5 * root_two_by_pi) * std::exp(T(-0.5) * x * x);
  return T(0.5) * std::erfc(-x * T(root_half)) + x * density;
}
template <typename T>
T gelu_tanh_slope(T x) {
  const T t = std::tanh(T(root_two_by_pi) * (x + T(cubic) * x * x * x));
  const T inner = T(root_two_by_pi) * (T(1) + T(3 * cubic) * x * x);
  return T(0.5) * (T(1) + t + x * (T(1) - t * t) * inner);
}

bool is_tanh(const Context& context) {
  return context.node.attributes.get<std::string>("approximate") == "tanh";
}
template <typename T>
Body<T> gelu_of(const Context& context) {
  return is_tanh(context) ? map<T, gelu_tanh<T>>(context) : map<T, gelu<T>>(context);
}
template <typename T>
Body<T> gelu_gradient_of(const Context& context) {
  return is_tanh(context) ? slope<T, gelu_tanh_slope<T>>(context) : slope<T, gelu_slope<T>>(context);
}

template <typename T>
T silu(T x) {
  return x / (T(1) + std::exp(-x));
}
template <typename T>
T silu_slope(T x) {
  const T s = T(1) / (T(1) + std::exp(-x));
  return s * (T(1) + x * (T(1) - s));
}

template <typename T>
T sigmoid(T x) {
  return T(1) / (T(1) + std::exp(-x));
}
template <typename T>
T sigmoid_slope(T y) {
  return y * (T(1) - y);
}
template <typename T>
T tanh(T x) {
  return std::tanh(x);
}
template <typename T>
T tanh_slope(T y) {
  return T(1) - y * y;
}
template <typename T>
T softplus(T x) {
  return (x > T(0) ? x : T(0)) + std::log1p(std::exp(-std::abs(x)));
}
template <typename T>
T softsign(T x) {
  return x / (T(1) + std::abs(x));
}
template <typename T>
T softsign_slope(T x) {
  const T down = T(1) + std::abs(x);
  return T(1) / (down * down);
}

template <typename T>
T number(const Context& context, const char* attribute) {
  return static_cast<T>(context.node.attributes.number(attribute));
}

template <typename T>
Body<T> leaky_relu(const Context& context) {
  return map_by<T>(context, [slope = number<T>(context, "slope")](T x) { return x > T(0) ? x : slope * x; });
}
template <typename T>
Body<T> leaky_relu_gradient(const Context& context) {
  return slope_by<T>(context, [slope = number<T>(context, "slope")](T x) { return x > T(0) ? T(1) : slope; });
}

template <typename T>
Body<T> elu(const Context& context) {
  return map_by<T>(
      context, [alpha = number<T>(context, "alpha")](T x) { return x > T(0) ? x : alpha * std::expm1(x); });
}
template <typename T>
Body<T> elu_gradient(const Context& context) {
  return slope_by<T>(
      context, [alpha = number<T>(context, "alpha")](T x) { return x > T(0) ? T(1) : alpha * std::exp(x); });
}

constexpr double selu_scale = 1.0507009873554805, selu_alpha = 1.6732632423543772;

template <typename T>
T selu(T x) {
  return x > T(0) ? T(selu_scale) * x : T(selu_scale * selu_alpha) * std::expm1(x);
}
template <typename T>
T selu_slope(T x) {
  return x > T(0) ? T(selu_scale) : T(selu_scale * selu_alpha) * std::exp(x);
}

template <typename T>
Body<T> clamp(const Context& context) {
  return map_by<T>(context, [least = number<T>(context, "least"), most = number<T>(context, "most")](T x) {
    return x < least ? least : x > most ? most : x;
  });
}
template <typename T>
Body<T> clamp_gradient(const Context& context) {
  return slope_by<T>(context, [least = number<T>(context, "least"), most = number<T>(context, "most")](T x) {
    return x > least && x < most ? T(1) : T(0);
  });
}

template <typename T>
Body<T> hard_sigmoid(const Context& context) {
  return map_by<T>(context, [alpha = number<T>(context, "alpha"), beta = number<T>(context, "beta")](T x) {
    const T inner = alpha * x + beta;
    return inner < T(0) ? T(0) : inner > T(1) ? T(1) : inner;
  });
}
template <typename T>
Body<T> hard_sigmoid_gradient(const Context& context) {
  return slope_by<T>(context, [alpha = number<T>(context, "alpha"), beta = number<T>(context, "beta")](T x) {
    const T inner = alpha * x + beta;
    return inner > T(0) && inner < T(1) ? alpha : T(0);
  });
}

template <typename T>
T hard_swish(T x) {
  return x < T(-3) ? T(0) * x : x > T(3) ? x : x * (x / T(6) + T(0.5));
}
template <typename T>
T hard_swish_slope(T x) {
  return x < T(-3) ? T(0) : x > T(3) ? T(1) : x / T(3) + T(0.5);
}

}  // namespace

std::span<const OpEntry> activation_ops() {
  static constexpr std::array entries{
      OpEntry{"gelu", gelu_of<float>, gelu_of<double>},
      OpEntry{"gelu_gradient", gelu_gradient_of<float>, gelu_gradient_of<double>},
      OpEntry{"silu", map<float, silu>, map<double, silu>},
      OpEntry{"silu_gradient", slope<float, silu_slope>, slope<double, silu_slope>},
      OpEntry{"sigmoid", map<float, sigmoid>, map<double, sigmoid>},
      OpEntry{"sigmoid_gradient", slope<float, sigmoid_slope>, slope<double, sigmoid_slope>},
      OpEntry{"tanh", map<float, tanh>, map<double, tanh>},
      OpEntry{"tanh_gradient", slope<float, tanh_slope>, slope<double, tanh_slope>},
      OpEntry{"softplus", map<float, softplus>, map<double, softplus>},
      OpEntry{"softplus_gradient", slope<float, sigmoid>, slope<double, sigmoid>},
      OpEntry{"softsign", map<float, softsign>, map<double, softsign>},
      OpEntry{"softsign_gradient", slope<float, softsign_slope>, slope<double, softsign_slope>},
      OpEntry{"leaky_relu", leaky_relu<float>, leaky_relu<double>},
      OpEntry{"leaky_relu_gradient", leaky_relu_gradient<float>, leaky_relu_gradient<double>},
      OpEntry{"elu", elu<float>, elu<double>},
      OpEntry{"elu_gradient", elu_gradient<float>, elu_gradient<double>},
      OpEntry{"selu", map<float, selu>, map<double, selu>},
      OpEntry{"selu_gradient", slope<float, selu_slope>, slope<double, selu_slope>},
      OpEntry{"clamp", clamp<float>, clamp<double>},
      OpEntry{"clamp_gradient", clamp_gradient<float>, clamp_gradient<double>},
      OpEntry{"hard_sigmoid", hard_sigmoid<float>, hard_sigmoid<double>},
      OpEntry{"hard_sigmoid_gradient", hard_sigmoid_gradient<float>, hard_sigmoid_gradient<double>},
      OpEntry{"hard_swish", map<float, hard_swish>, map<double, hard_swish>},
      OpEntry{"hard_swish_gradient", slope<float, hard_swish_slope>, slope<double, hard_swish_slope>}};
  return entries;
}

}  // namespace assay::reference
