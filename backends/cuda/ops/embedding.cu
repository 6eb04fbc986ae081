// Lookup of table rows, and the gradients. A counting sort gathers each row's positions in a fixed order, so
// that the gradient of a row is one sum in the order of its positions, without atomics.
#include "backends/cuda/kernels/buckets.hpp"
#include "backends/cuda/lowering.hpp"

namespace assay::cuda {
namespace {

template <typename T>
struct Lookup {
  const std::int32_t* indices;
  const T* weight;
  T* y;
  std::int64_t rows, width;
  ASSAY_HD void operator()(std::int64_t i) const {
    const std::int64_t row = indices[i / width];
    y[i] = row < 0 || row >= rows ? narrow<T>(0) : weight[row * width + i % width];
  }
};

template <typename T>
struct SumBucket {
  const std::int32_t *first, *order;  // of the buckets
  const T* dy;
  float* sums;
  std::int64_t width;
  ASSAY_HD void operator()(std::int64_t i) const {
    const std::int64_t row = i / width, column = i % width;
    float sum = 0;
    for (std::int32_t at = first[row]; at < first[row + 1]; ++at)
      sum += widen(dy[order[at] * width + column]);
    sums[i] = sum;
  }
};

template <typename T>
struct SumTouched {
  const std::int32_t *first, *order, *touched;
  const T* dy;
  float* values;
  std::int64_t width;
  ASSAY_HD void operator()(std::int64_t i) const {
    const std::int64_t row = touched[i / width], column = i % width;
    float sum = 0;
    if (row >= 0) {
      for (std::int32_t at = first[row]; at < first[row + 1]; ++at)
        sum += widen(dy[order[at] * width + column]);
    }
    values[i] = sum;
  }
};

struct ZeroFloats {
  float* values;
  ASSAY_HD void operator()(std::int64_t i) const { values[i] = 0; }
};

struct WriteRows {
  const float* values;
  const std::int32_t* touched;
  float* dense;
  std::int64_t rows, width;
  ASSAY_HD void operator()(std::int64_t i) const {
    const std::int64_t row = touched[i / width];
    if (row >= 0 && row < rows) dense[row * width + i % width] = values[i];
  }
};

Lowered lower_lookup(const Request& request) {
  Lowered lowered = draft(request, Layout::plain);
  const Stream stream = request.context.device.stream();
  const std::int64_t rows = request.in(1)[0], width = request.in(1)[1];
  lowered.kernel = with_type(request.inputs[1].dtype, [&]<typename T>(T) {
    return make_kernel(
        [=, n = request.outputs[0].elements()](const Operands& at) {
          for_each(stream, n, Lookup<T>{at.in<std::int32_t>(0), at.in<T>(1), at.out<T>(0), rows, width});
        },
        "own:rows");
  });
  return lowered;
}

Lowered lower_gradient(const Request& request) {
  Lowered lowered = draft(request, Layout::plain);
  const Stream stream = request.context.device.stream();
  const std::int64_t rows = request.out(0)[0], width = request.out(0)[1];
  const Buckets buckets(request.inputs[0].elements(), rows);
  lowered.scratch_bytes = buckets.bytes();
  lowered.kernel = with_type(request.inputs[1].dtype, [&]<typename T>(T) {
    return make_kernel(
        [=](const Operands& at) {
          const Buckets::Sorted sorted = buckets.sort(stream, at.in<std::int32_t>(0), at.scratch);
          for_each(stream, rows * width,
                   SumBucket<T>{sorted.first, sorted.order, at.in<T>(1), at.out<float>(0), width});
        },
        "own:counting_sort");
  });
  return lowered;
}

Lowered lower_row_gradient(const Request& request) {
  Lowered lowered = draft(request, Layout::plain);
  const Stream stream = request.context.device.stream();
  const std::int64_t rows = request.integer("rows"), kept = request.out(0)[0], width = request.out(0)[1];
  const Buckets buckets(request.inputs[0].elements(), rows);
  lowered.scratch_bytes = buckets.bytes();
  lowered.kernel = with_type(request.inputs[1].dtype, [&]<typename T>(T) {
    return make_kernel(
        [=](const Operands& at) {
          const Buckets::Sorted sorted = buckets.sort(stream, at.in<std::int32_t>(0), at.scratch);
          auto* const touched = at.out<std::int32_t>(1);
          for_each_row(stream, 1, rows, ListTouched{sorted.first, touched, rows, kept});
          for_each(stream, kept * width,
                   SumTouched<T>{sorted.first, sorted.order, touched, at.in<T>(1), at.out<float>(0), width});
        },
        "own:counting_sort");
  });
  return lowered;
}

Lowered lower_dense_rows(const Request& request) {
  Lowered lowered = draft(request, Layout::plain);
  const Stream stream = request.context.device.stream();
  const std::int64_t kept = request.in(0)[0], rows = request.out(0)[0], width = request.out(0)[1];
  lowered.kernel = make_kernel(
      [=](const Operands& at) {
        for_each(stream, rows * width, ZeroFloats{at.out<float>(0)});
        for_each(stream, kept * width,
                 WriteRows{at.in<float>(0), at.in<std::int32_t>(1), at.out<float>(0), rows, width});
      },
      "own:rows");
  return lowered;
}

}  // namespace

std::span<const OpEntry> embedding_ops() {
  static constexpr std::array entries{
      OpEntry{"embedding", lower_lookup}, OpEntry{"embedding_gradient", lower_gradient},
      OpEntry{"embedding_row_gradient", lower_row_gradient}, OpEntry{"dense_rows", lower_dense_rows}};
  return entries;
}

}  // namespace assay::cuda
