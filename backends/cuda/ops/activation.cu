// The activations but the ReLU, and their gradients.
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

struct LeakyRelu {
  float slope;
  ASSAY_HD float operator()(float x) const { return x > 0 ? x : slope * x; }
};
struct LeakyReluSlope {  // of x
  float slope;
  ASSAY_HD float operator()(float x) const { return x > 0 ? 1.0F : slope; }
};
struct Elu {
  float alpha;
  ASSAY_HD float operator()(float x) const { return x > 0 ? x : alpha * expm1f(x); }
};
struct EluSlope {  // of x
  float alpha;
  ASSAY_HD float operator()(float x) const { return x > 0 ? 1.0F : alpha * expf(x); }
};
constexpr float selu_scale = 1.0507009874F, selu_below = 1.7580993408F;  // s, and s a
struct Selu {
  ASSAY_HD float operator()(float x) const { return x > 0 ? selu_scale * x : selu_below * expm1f(x); }
};
struct SeluSlope {  // of x
  ASSAY_HD float operator()(float x) const { return x > 0 ? selu_scale : selu_below * expf(x); }
};
struct Clamp {
  float least, most;
  ASSAY_HD float operator()(float x) const { return x < least ? least : x > most ? most : x; }
};
struct ClampSlope {  // of x
  float least, most;
  ASSAY_HD float operator()(float x) const { return x > least && x < most ? 1.0F : 0.0F; }
};
struct HardSigmoid {
  float alpha, beta;
  ASSAY_HD float operator()(float x) const {
    const float inner = alpha * x + beta;
    return inner < 0 ? 0.0F : inner > 1 ? 1.0F : inner;
  }
};
struct HardSigmoidSlope {  // of x
  float alpha, beta;
  ASSAY_HD float operator()(float x) const {
    const float inner = alpha * x + beta;
    return inner > 0 && inner < 1 ? alpha : 0.0F;
  }
};
struct HardSwish {
  ASSAY_HD float operator()(float x) const { return x < -3.0F ? 0.0F : x > 3.0F ? x : x * (x / 6.0F + 0.5F); }
};
struct HardSwishSlope {  // of x
  ASSAY_HD float operator()(float x) const { return x < -3.0F ? 0.0F : x > 3.0F ? 1.0F : x / 3.0F + 0.5F; }
};

// y = f(x)
template <typename T, typename F>
struct Map {
  const T* x;
  T* y;
  F f;
  ASSAY_HD void operator()(std::int64_t i) const { y[i] = narrow<T>(f(widen(x[i]))); }
};

// dx = dy * f(x or y)
template <typename T, typename F>
struct Slope {
  const T *at, *dy;
  T* dx;
  F f;
  ASSAY_HD void operator()(std::int64_t i) const { dx[i] = narrow<T>(widen(dy[i]) * f(widen(at[i]))); }
};

template <typename F>
Lowered lower_map_by(const Request& request, F f) {
  return lower_elementwise(request, request.follow({0}), [f]<typename T>(T, const Operands& at) {
    return Map<T, F>{at.in<T>(0), at.out<T>(0), f};
  });
}
template <typename F>
Lowered lower_slope_by(const Request& request, F f) {
  return lower_elementwise(request, request.follow_all(), [f]<typename T>(T, const Operands& at) {
    return Slope<T, F>{at.in<T>(0), at.in<T>(1), at.out<T>(0), f};
  });
}

template <typename F>
Lowered lower_map(const Request& request) {
  return lower_map_by(request, F());
}
template <typename F>
Lowered lower_slope(const Request& request) {
  return lower_slope_by(request, F());
}

float number_of(const Request& request, const char* attribute) {
  return static_cast<float>(request.node.attributes.number(attribute));
}

Lowered lower_gelu(const Request& request) {
  const bool erf = request.node.attributes.get<std::string>("approximate") == "none";
  return erf ? lower_map<Gelu>(request) : lower_map<GeluTanh>(request);
}
Lowered lower_gelu_gradient(const Request& request) {
  const bool erf = request.node.attributes.get<std::string>("approximate") == "none";
  return erf ? lower_slope<GeluSlope>(request) : lower_slope<GeluTanhSlope>(request);
}

Lowered lower_leaky_relu(const Request& request) {
  return lower_map_by(request, LeakyRelu{number_of(request, "slope")});
}
Lowered lower_leaky_relu_gradient(const Request& request) {
  return lower_slope_by(request, LeakyReluSlope{number_of(request, "slope")});
}
Lowered lower_elu(const Request& request) { return lower_map_by(request, Elu{number_of(request, "alpha")}); }
Lowered lower_elu_gradient(const Request& request) {
  return lower_slope_by(request, EluSlope{number_of(request, "alpha")});
}
Lowered lower_clamp(const Request& request) {
  return lower_map_by(request, Clamp{number_of(request, "least"), number_of(request, "most")});
}
Lowered lower_clamp_gradient(const Request& request) {
  return lower_slope_by(request, ClampSlope{number_of(request, "least"), number_of(request, "most")});
}
Lowered lower_hard_sigmoid(const Request& request) {
  return lower_map_by(request, HardSigmoid{number_of(request, "alpha"), number_of(request, "beta")});
}
Lowered lower_hard_sigmoid_gradient(const Request& request) {
  return lower_slope_by(request, HardSigmoidSlope{number_of(request, "alpha"), number_of(request, "beta")});
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
                                      OpEntry{"silu_gradient", lower_slope<SiluSlope>},
                                      OpEntry{"leaky_relu", lower_leaky_relu},
                                      OpEntry{"leaky_relu_gradient", lower_leaky_relu_gradient},
                                      OpEntry{"elu", lower_elu},
                                      OpEntry{"elu_gradient", lower_elu_gradient},
                                      OpEntry{"selu", lower_map<Selu>},
                                      OpEntry{"selu_gradient", lower_slope<SeluSlope>},
                                      OpEntry{"clamp", lower_clamp},
                                      OpEntry{"clamp_gradient", lower_clamp_gradient},
                                      OpEntry{"hard_sigmoid", lower_hard_sigmoid},
                                      OpEntry{"hard_sigmoid_gradient", lower_hard_sigmoid_gradient},
                                      OpEntry{"hard_swish", lower_map<HardSwish>},
                                      OpEntry{"hard_swish_gradient", lower_slope<HardSwishSlope>}};
  return entries;
}

}  // namespace assay::cuda
