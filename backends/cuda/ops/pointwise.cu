// Elementwise ops: the ReLU, sums, products, casts.
#include "backends/cuda/casts.hpp"
#include "backends/cuda/lowering.hpp"

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

template <typename T>
struct Add {
  const T *a, *b;
  T* y;
  bool clipped;
  ASSAY_HD void operator()(std::int64_t i) const {
    const float sum = widen(a[i]) + widen(b[i]);
    y[i] = narrow<T>(clipped ? relu(sum) : sum);
  }
};

// b has the last dimensions of a.
template <typename T>
struct AddRow {
  const T *a, *b;
  T* y;
  std::int64_t row;
  bool clipped;
  ASSAY_HD void operator()(std::int64_t i) const {
    const float sum = widen(a[i]) + widen(b[i % row]);
    y[i] = narrow<T>(clipped ? relu(sum) : sum);
  }
};

template <typename T>
struct Multiply {
  const T *a, *b;
  T* y;
  bool scalar;
  ASSAY_HD void operator()(std::int64_t i) const { y[i] = narrow<T>(widen(a[i]) * widen(b[scalar ? 0 : i])); }
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

Lowered lower_add(const Request& request) {
  if (request.in(0) != request.in(1)) {
    Lowered lowered = lower_elementwise(
        request, Layout::plain,
        [clipped = request.relu(), row = request.inputs[1].elements()]<typename T>(T, const Operands& at) {
          return AddRow<T>{at.in<T>(0), at.in<T>(1), at.out<T>(0), row, clipped};
        });
    lowered.in_place = {{0, 0}};
    return lowered;
  }
  return lower_elementwise(request, request.follow_all(),
                           [clipped = request.relu()]<typename T>(T, const Operands& at) {
                             return Add<T>{at.in<T>(0), at.in<T>(1), at.out<T>(0), clipped};
                           });
}

Lowered lower_multiply(const Request& request) {
  return lower_elementwise(request, request.follow({0}),
                           [scalar = request.in(1) != request.in(0)]<typename T>(T, const Operands& at) {
                             return Multiply<T>{at.in<T>(0), at.in<T>(1), at.out<T>(0), scalar};
                           });
}

Lowered lower_cast(const Request& request) {
  Lowered lowered = draft(request, request.follow({0}));
  const Stream stream = request.context.device.stream();
  if (request.inputs[0].dtype == DType::f32 && request.outputs[0].dtype == DType::bf16) {
    lowered.kernel = std::make_unique<Narrowing>(stream, request.inputs[0].elements());
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
  static constexpr std::array entries{
      OpEntry{"relu", lower_relu}, OpEntry{"relu_gradient", lower_relu_gradient},
      OpEntry{"add", lower_add},   OpEntry{"multiply", lower_multiply},
      OpEntry{"cast", lower_cast}, OpEntry{"from_array", lower_cast}};
  return entries;
}

}  // namespace assay::cuda
