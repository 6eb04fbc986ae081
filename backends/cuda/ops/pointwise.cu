// Elementwise ops: the ReLU, sums, products, casts.
#include <algorithm>

#include "backends/cuda/casts.hpp"
#include "backends/cuda/lowering.hpp"
#include "harness/graph/broadcast.hpp"

namespace assay::cuda {
namespace {

template <typename T>
struct Relu {
  const T* x;
  T* y;
  ASSAY_HD void operator()(std::int64_t i) const { y[i] = narrow<T>(relu(widen(x[i]))); }
};

template <typename T>
struct ReluGradient {
  const T *y, *dy;
  T* dx;
  ASSAY_HD void operator()(std::int64_t i) const { dx[i] = widen(y[i]) > 0 ? dy[i] : narrow<T>(0); }
};

struct Plus {
  ASSAY_HD float operator()(float a, float b) const { return a + b; }
};
struct ClippedPlus {
  ASSAY_HD float operator()(float a, float b) const { return relu(a + b); }
};
struct Minus {
  ASSAY_HD float operator()(float a, float b) const { return a - b; }
};
struct Times {
  ASSAY_HD float operator()(float a, float b) const { return a * b; }
};
struct DividedBy {
  ASSAY_HD float operator()(float a, float b) const { return a / b; }
};

// y = F(a, b)
template <typename T, typename F>
struct Pair {
  const T *a, *b;
  T* y;
  ASSAY_HD void operator()(std::int64_t i) const { y[i] = narrow<T>(F()(widen(a[i]), widen(b[i]))); }
};

// A Broadcast that a kernel can take.
struct BroadcastWalk {
  static constexpr std::size_t most = 8;  // dimensions of a shape
  int rank = 0;
  std::int64_t sizes[most] = {}, a[most] = {}, b[most] = {};
};

BroadcastWalk walk_of(const Request& request) {
  const Broadcast found = broadcast(request.inputs[0].shape, request.inputs[1].shape);
  BroadcastWalk walk;
  walk.rank = static_cast<int>(found.sizes.size());
  std::ranges::copy(found.sizes, walk.sizes);
  std::ranges::copy(found.a, walk.a);
  std::ranges::copy(found.b, walk.b);
  return walk;
}

// y = F(a, b), where a or b is repeated.
template <typename T, typename F>
struct RepeatedPair {
  const T *a, *b;
  T* y;
  BroadcastWalk walk;
  ASSAY_HD void operator()(std::int64_t i) const {
    std::int64_t at_a = 0, at_b = 0, rest = i;
    for (int d = walk.rank; d-- > 0;) {
      const std::int64_t here = rest % walk.sizes[d];
      rest /= walk.sizes[d];
      at_a += here * walk.a[d];
      at_b += here * walk.b[d];
    }
    y[i] = narrow<T>(F()(widen(a[at_a]), widen(b[at_b])));
  }
};

template <typename From, typename To>
struct Cast {
  const From* x;
  To* y;
  ASSAY_HD void operator()(std::int64_t i) const { y[i] = narrow<To>(widen(x[i])); }
};

Lowered lower_relu(const Request& request) {
  return lower_elementwise(request, request.follow_all(), []<typename T>(T, const Operands& at) {
    return Relu<T>{at.in<T>(0), at.out<T>(0)};
  });
}

Lowered lower_relu_gradient(const Request& request) {
  return lower_elementwise(request, request.follow_all(), []<typename T>(T, const Operands& at) {
    return ReluGradient<T>{at.in<T>(0), at.in<T>(1), at.out<T>(0)};
  });
}

template <typename F>
Lowered lower_binary(const Request& request) {
  if (request.in(0) == request.in(1)) {
    return lower_elementwise(request, request.follow_all(), []<typename T>(T, const Operands& at) {
      return Pair<T, F>{at.in<T>(0), at.in<T>(1), at.out<T>(0)};
    });
  }
  Lowered lowered =
      lower_elementwise(request, Layout::plain, [walk = walk_of(request)]<typename T>(T, const Operands& at) {
        return RepeatedPair<T, F>{at.in<T>(0), at.in<T>(1), at.out<T>(0), walk};
      });
  // An operand that is repeated is read again after a result is written.
  std::erase_if(lowered.in_place, [&](const InPlace& pair) {
    return request.inputs[static_cast<std::size_t>(pair.input)].elements() != request.outputs[0].elements();
  });
  return lowered;
}

Lowered lower_add(const Request& request) {
  return request.relu() ? lower_binary<ClippedPlus>(request) : lower_binary<Plus>(request);
}

Lowered lower_cast(const Request& request) {
  Lowered lowered = draft(request, request.follow({0}));
  const Stream stream = request.context.device.stream();
  if (request.inputs[0].dtype == DType::f32 && request.outputs[0].dtype == DType::bf16) {
    lowered.kernel =
        std::make_unique<ParameterCopy>(stream, std::vector{request.inputs[0].elements()}, DType::bf16);
    return lowered;
  }
  lowered.kernel = with_type(request.inputs[0].dtype, [&]<typename From>(From) {
    return with_type(request.outputs[0].dtype, [&]<typename To>(To) {
      return make_kernel(
          [stream, n = request.inputs[0].elements()](const Operands& at) {
            for_each(stream, n, Cast<From, To>{at.in<From>(0), at.out<To>(0)});
          },
          "own:pointwise");
    });
  });
  return lowered;
}

}  // namespace

std::span<const OpEntry> pointwise_ops() {
  static constexpr std::array entries{OpEntry{"relu", lower_relu},
                                      OpEntry{"relu_gradient", lower_relu_gradient},
                                      OpEntry{"add", lower_add},
                                      OpEntry{"subtract", lower_binary<Minus>},
                                      OpEntry{"multiply", lower_binary<Times>},
                                      OpEntry{"divide", lower_binary<DividedBy>},
                                      OpEntry{"cast", lower_cast},
                                      OpEntry{"from_array", lower_cast}};
  return entries;
}

}  // namespace assay::cuda
