// The smooth activations and their gradients.
#include "backends/cuda/lowering.hpp"

namespace assay::cuda {
namespace {

// The normal distribution up to x.
ASSAY_HD inline float normal_below(float x) { return 0.5F * erfcf(-0.70710678F * x); }

// Without the difference 1 - sigmoid(x), which would cost digits.
ASSAY_HD inline float sigmoid_slope(float x) { return sigmoid(x) * sigmoid(-x); }

struct Sigmoid {
  ASSAY_HD float operator()(float x) const { return sigmoid(x); }
};
struct SigmoidSlope {  // of y
  ASSAY_HD float operator()(float y) const { return y * (1.0F - y); }
};
struct Tanh {
  ASSAY_HD float operator()(float x) const { return tanhf(x); }
};
struct TanhSlope {  // of y
  ASSAY_HD float operator()(float y) const { return 1.0F - y * y; }
};
struct Softplus {
  ASSAY_HD float operator()(float x) const { return (x > 0 ? x : 0.0F) + log1pf(expf(-fabsf(x))); }
};
struct Softsign {
  ASSAY_HD float operator()(float x) const { return x / (1.0F + fabsf(x)); }
};
struct SoftsignSlope {  // of x
  ASSAY_HD float operator()(float x) const {
    const float down = 1.0F + fabsf(x);
    return 1.0F / (down * down);
  }
};

struct Gelu {
  ASSAY_HD float operator()(float x) const { return x * normal_below(x); }
};
struct GeluSlope {  // of x
  ASSAY_HD float operator()(float x) const {
    constexpr float inverse_root_of_two_pi = 0.3989422804F;
    return normal_below(x) + x * expf(-0.5F * x * x) * inverse_root_of_two_pi;
  }
};
// 0.5 (1 + tanh(u)) is sigmoid(2 u), with 2 u = x (1.5957691 + 0.0713548 x^2).
struct GeluTanh {
  ASSAY_HD float operator()(float x) const {
    return x * sigmoid(x * (1.5957691216F + 0.0713548163F * x * x));
  }
};
struct GeluTanhSlope {  // of x
  ASSAY_HD float operator()(float x) const {
    const float square = x * x, twice = x * (1.5957691216F + 0.0713548163F * square);
    return sigmoid(twice) + x * sigmoid_slope(twice) * (1.5957691216F + 3.0F * 0.0713548163F * square);
  }
};
struct Silu {
  ASSAY_HD float operator()(float x) const { return x * sigmoid(x); }
};
struct SiluSlope {  // of x
  ASSAY_HD float operator()(float x) const { return sigmoid(x) + x * sigmoid_slope(x); }
};

// y = F(x)
template <typename T, typename F>
struct Map {
  const T* x;
  T* y;
  ASSAY_HD void operator()(std::int64_t i) const { y[i] = narrow<T>(F()(widen(x[i]))); }
};

// dx = dy * F(x or y)
template <typename T, typename F>
struct Slope {
  const T *at, *dy;
  T* dx;
  ASSAY_HD void operator()(std::int64_t i) const { dx[i] = narrow<T>(widen(dy[i]) * F()(widen(at[i]))); }
};

template <typename F>
Lowered lower_map(const Request& request) {
  return lower_elementwise(request, request.follow({0}), []<typename T>(T, const Operands& at) {
    return Map<T, F>{at.in<T>(0), at.out<T>(0)};
  });
}

template <typename F>
Lowered lower_slope(const Request& request) {
  return lower_elementwise(request, request.follow_all(), []<typename T>(T, const Operands& at) {
    return Slope<T, F>{at.in<T>(0), at.in<T>(1), at.out<T>(0)};
  });
}

Lowered lower_gelu(const Request& request) {
  const bool erf = request.node.attributes.get<std::string>("approximate") == "none";
  return erf ? lower_map<Gelu>(request) : lower_map<GeluTanh>(request);
}
Lowered lower_gelu_gradient(const Request& request) {
  const bool erf = request.node.attributes.get<std::string>("approximate") == "none";
  return erf ? lower_slope<GeluSlope>(request) : lower_slope<GeluTanhSlope>(request);
}

}  // namespace

std::span<const OpEntry> activation_ops() {
  static constexpr std::array entries{OpEntry{"sigmoid", lower_map<Sigmoid>},
                                      OpEntry{"sigmoid_gradient", lower_slope<SigmoidSlope>},
                                      OpEntry{"tanh", lower_map<Tanh>},
                                      OpEntry{"tanh_gradient", lower_slope<TanhSlope>},
                                      OpEntry{"softplus", lower_map<Softplus>},
                                      OpEntry{"softplus_gradient", lower_slope<Sigmoid>},
                                      OpEntry{"softsign", lower_map<Softsign>},
                                      OpEntry{"softsign_gradient", lower_slope<SoftsignSlope>},
                                      OpEntry{"gelu", lower_gelu},
                                      OpEntry{"gelu_gradient", lower_gelu_gradient},
                                      OpEntry{"silu", lower_map<Silu>},
                                      OpEntry{"silu_gradient", lower_slope<SiluSlope>}};
  return entries;
}

}  // namespace assay::cuda
