// Softmax over rows and its gradient: one team of threads per row.
#include "backends/cuda/lowering.hpp"

namespace assay::cuda {
namespace {

template <typename T>
struct Softmax {
  const T* x;
  T* y;
  std::int64_t columns;
  ASSAY_TEAM void operator()(const Team& team, std::int64_t row) const {
    const T* from = x + row * columns;
    T* to = y + row * columns;
    float largest = -INFINITY, sum = 0;
    for (std::int64_t c = team.rank(); c < columns; c += team.size())
      largest = fmaxf(largest, widen(from[c]));
    largest = team.max(largest);
    for (std::int64_t c = team.rank(); c < columns; c += team.size()) sum += expf(widen(from[c]) - largest);
    sum = team.sum(sum);
    for (std::int64_t c = team.rank(); c < columns; c += team.size())
      to[c] = narrow<T>(expf(widen(from[c]) - largest) / sum);
  }
};

template <typename T>
struct SoftmaxGradient {
  const T *y, *dy;
  T* dx;
  std::int64_t columns;
  ASSAY_TEAM void operator()(const Team& team, std::int64_t row) const {
    const std::int64_t first = row * columns;
    float sum = 0;
    for (std::int64_t c = team.rank(); c < columns; c += team.size())
      sum += widen(y[first + c]) * widen(dy[first + c]);
    sum = team.sum(sum);
    for (std::int64_t c = team.rank(); c < columns; c += team.size())
      dx[first + c] = narrow<T>(widen(y[first + c]) * (widen(dy[first + c]) - sum));
  }
};

struct SoftmaxRows {
  std::int64_t columns, rows;
  explicit SoftmaxRows(const Shape& shape) : columns(shape.back()), rows(element_count(shape) / columns) {}
};

// body(T{}, at, columns) returns the function that for_each_row() calls.
template <typename Body>
Lowered lower_rows(const Request& request, const Body& body) {
  Lowered lowered = draft(request, Layout::plain);
  lowered.in_place = in_place(request.node);
  const Stream stream = request.context.device.stream();
  const SoftmaxRows shape(request.out(0));
  lowered.kernel = with_type(request.inputs[0].dtype, [&]<typename T>(T) {
    return make_kernel(
        [stream, shape, body](const Operands& at) {
          for_each_row(stream, shape.rows, shape.columns, body(T{}, at, shape.columns));
        },
        "own:rows");
  });
  return lowered;
}

Lowered lower_softmax(const Request& request) {
  return lower_rows(request, []<typename T>(T, const Operands& at, std::int64_t columns) {
    return Softmax<T>{at.in<T>(0), at.out<T>(0), columns};
  });
}

Lowered lower_softmax_gradient(const Request& request) {
  return lower_rows(request, []<typename T>(T, const Operands& at, std::int64_t columns) {
    return SoftmaxGradient<T>{at.in<T>(0), at.in<T>(1), at.out<T>(0), columns};
  });
}

}  // namespace

std::span<const OpEntry> softmax_ops() {
  static constexpr std::array entries{OpEntry{"softmax", lower_softmax},
                                      OpEntry{"softmax_gradient", lower_softmax_gradient}};
  return entries;
}

}  // namespace assay::cuda
