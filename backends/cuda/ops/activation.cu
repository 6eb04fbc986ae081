// The smooth activations and their gradients.
#include "backends/cuda/lowering.hpp"

namespace assay::cuda {
namespace {

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

}  // namespace

std::span<const OpEntry> activation_ops() {
  static constexpr std::array entries{
      OpEntry{"sigmoid", lower_map<Sigmoid>},   OpEntry{"sigmoid_gradient", lower_slope<SigmoidSlope>},
      OpEntry{"tanh", lower_map<Tanh>},         OpEntry{"tanh_gradient", lower_slope<TanhSlope>},
      OpEntry{"softplus", lower_map<Softplus>}, OpEntry{"softplus_gradient", lower_slope<Sigmoid>},
      OpEntry{"softsign", lower_map<Softsign>}, OpEntry{"softsign_gradient", lower_slope<SoftsignSlope>}};
  return entries;
}

}  // namespace assay::cuda
