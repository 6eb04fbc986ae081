// Lookup of table rows, and the gradients. A counting sort gathers each row's positions in a fixed order, so
// that the gradient of a row is one sum in the order of its positions, without atomics. In a small table each row looks at
// all positions.
#include "backends/cuda/kernels/buckets.hpp"
#include "backends/cuda/kernels/long_sum.hpp"
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

// The sorted positions are cut into chunks. One that has positions of only one row is added up beforehand, all
// of them at once: half of a batch of texts may be the row of the padding.
constexpr std::int64_t chunk = 256;

template <typename T>
struct SortedRows {
  const std::int32_t *indices, *first, *order;  // the last two of the buckets
  const T* dy;
  float* chunks;  // (positions / chunk, width)
  std::int64_t width;

  ASSAY_HD float at(std::int64_t place, std::int64_t column) const {
    return widen(dy[order[place] * width + column]);
  }
  ASSAY_HD float sum(std::int64_t row, std::int64_t column) const {
    float sum = 0;
    const std::int64_t end = first[row + 1];
    for (std::int64_t place = first[row]; place < end;) {
      const bool whole = place % chunk == 0 && end - place >= chunk;
      sum += whole ? chunks[place / chunk * width + column] : at(place, column);
      place += whole ? chunk : 1;
    }
    return sum;
  }
};

template <typename T>
struct SumChunk {
  SortedRows<T> sorted;
  std::int64_t rows;
  ASSAY_HD void operator()(std::int64_t i) const {
    const std::int64_t begin = i / sorted.width * chunk, last = begin + chunk - 1, column = i % sorted.width;
    // Positions without a row are not in the order.
    if (last >= sorted.first[rows]) return;
    if (sorted.indices[sorted.order[begin]] != sorted.indices[sorted.order[last]]) return;
    float sum = 0;
    for (std::int64_t place = begin; place <= last; ++place) sum += sorted.at(place, column);
    sorted.chunks[i] = sum;
  }
};

template <typename T>
struct SumBucket {
  SortedRows<T> sorted;
  float* sums;
  ASSAY_HD void operator()(std::int64_t i) const { sums[i] = sorted.sum(i / sorted.width, i % sorted.width); }
};

template <typename T>
struct SumTouched {
  SortedRows<T> sorted;
  const std::int32_t* touched;
  float* values;
  ASSAY_HD void operator()(std::int64_t i) const {
    const std::int64_t row = touched[i / sorted.width];
    values[i] = row >= 0 ? sorted.sum(row, i % sorted.width) : 0.0F;
  }
};

// The sort and the sums of chunks, in a node's scratch.
class RowSums {
 public:
  RowSums(std::int64_t positions, std::int64_t rows, std::int64_t width)
      : buckets_(positions, rows), rows_(rows), width_(width), chunks_(positions / chunk) {
    sort_ = scratch_.add(buckets_.bytes());
    sums_ = scratch_.add(chunks_ * width * static_cast<std::int64_t>(sizeof(float)));
  }
  std::int64_t bytes() const { return scratch_.bytes(); }

  template <typename T>
  SortedRows<T> enqueue(Stream stream, const std::int32_t* indices, const T* dy, const Operands& at) const {
    const Buckets::Sorted order = buckets_.sort(stream, indices, at.scratch_at<std::byte>(sort_));
    const SortedRows<T> sorted{indices, order.first, order.order, dy, at.scratch_at<float>(sums_), width_};
    for_each(stream, chunks_ * width_, SumChunk<T>{sorted, rows_});
    return sorted;
  }

 private:
  Buckets buckets_;
  std::int64_t rows_, width_, chunks_;
  Scratch scratch_;
  std::int64_t sort_ = 0, sums_ = 0;
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

// An element of the gradient of a small table.
template <typename T>
struct SumMatching {
  const std::int32_t* indices;
  const T* dy;
  float* sums;
  std::int64_t positions, width;
  ASSAY_TEAM void operator()(const Alone& alone, std::int64_t i) const {
    const std::int64_t row = i / width, column = i % width;
    sums[i] = long_sum(alone, 0, positions, [&](std::int64_t place) {
      return indices[place] == row ? widen(dy[place * width + column]) : 0.0F;
    });
  }
};

// A thread reads the indices of these positions in about the time of two launches.
constexpr std::int64_t max_small_positions = 2048, max_small_rows = 1024;

Lowered lower_small_embedding_gradient(const Request& request) {
  Lowered lowered = draft(request, Layout::plain);
  const Stream stream = request.context.device.stream();
  const std::int64_t rows = request.out(0)[0], width = request.out(0)[1];
  lowered.kernel = with_type(request.inputs[1].dtype, [&]<typename T>(T) {
    return make_kernel(
        [=, positions = request.inputs[0].elements()](const Operands& at) {
          for_each(stream, rows * width,
                   ByOneThread<SumMatching<T>>{
                       {at.in<std::int32_t>(0), at.in<T>(1), at.out<float>(0), positions, width}});
        },
        "own:rows");
  });
  return lowered;
}

Lowered lower_embedding_gradient(const Request& request) {
  if (request.inputs[0].elements() <= max_small_positions && request.out(0)[0] <= max_small_rows)
    return lower_small_embedding_gradient(request);
  Lowered lowered = draft(request, Layout::plain);
  const Stream stream = request.context.device.stream();
  const std::int64_t rows = request.out(0)[0], width = request.out(0)[1];
  const RowSums sums(request.inputs[0].elements(), rows, width);
  lowered.scratch_bytes = sums.bytes();
  lowered.kernel = with_type(request.inputs[1].dtype, [&]<typename T>(T) {
    return make_kernel(
        [=](const Operands& at) {
          const SortedRows<T> sorted = sums.enqueue(stream, at.in<std::int32_t>(0), at.in<T>(1), at);
          for_each(stream, rows * width, SumBucket<T>{sorted, at.out<float>(0)});
        },
        "own:counting_sort");
  });
  return lowered;
}

Lowered lower_row_gradient(const Request& request) {
  Lowered lowered = draft(request, Layout::plain);
  const Stream stream = request.context.device.stream();
  const std::int64_t rows = request.integer("rows"), kept = request.out(0)[0], width = request.out(0)[1];
  const RowSums sums(request.inputs[0].elements(), rows, width);
  lowered.scratch_bytes = sums.bytes();
  lowered.kernel = with_type(request.inputs[1].dtype, [&]<typename T>(T) {
    return make_kernel(
        [=](const Operands& at) {
          const SortedRows<T> sorted = sums.enqueue(stream, at.in<std::int32_t>(0), at.in<T>(1), at);
          auto* const touched = at.out<std::int32_t>(1);
          for_each_row(stream, 1, rows, ListTouched{sorted.first, touched, rows, kept});
          for_each(stream, kept * width, SumTouched<T>{sorted, touched, at.out<float>(0)});
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
      OpEntry{"embedding", lower_lookup}, OpEntry{"embedding_gradient", lower_embedding_gradient},
      OpEntry{"embedding_row_gradient", lower_row_gradient}, OpEntry{"dense_rows", lower_dense_rows}};
  return entries;
}

}  // namespace assay::cuda
