// Layer norm and RMS norm over the last dimension, and their gradients: one team of threads per row, or for a few rows, and
// the gradients of scale and shift as sums over the rows in two rounds with a fixed order.
#include "backends/cuda/kernels/columns.hpp"
#include "backends/cuda/kernels/long_sum.hpp"
#include "backends/cuda/lowering.hpp"

namespace assay::cuda {
namespace {

template <typename T>
struct LayerNorm {
  const T* x;
  const float *scale, *shift;
  T* y;
  float *mean, *inverse;  // may be null
  std::int64_t columns;
  float epsilon;
  ASSAY_TEAM void operator()(const Team& team, std::int64_t row) const {
    const std::int64_t first = row * columns;
    const auto count = static_cast<float>(columns);
    // Relative to the first element, and then to that mean: a mean far from zero costs no digits, and neither
    // does a mean near zero.
    const float pivot = widen(x[first]);
    const auto average = [&](float from) {
      return team.sum(long_sum(team, 0, columns, [&](std::int64_t c) {
        return widen(x[first + c]) - from;
      })) / count;
    };
    const float near = pivot + average(pivot);
    const float rest = average(near);
    const auto away = [&](std::int64_t c) { return widen(x[first + c]) - near - rest; };
    const float squares = long_sum(team, 0, columns, [&](std::int64_t c) { return away(c) * away(c); });
    const float factor = 1.0F / sqrtf(team.sum(squares) / count + epsilon);
    for (std::int64_t c = team.rank(); c < columns; c += team.size())
      y[first + c] = narrow<T>(away(c) * factor * scale[c] + shift[c]);
    if (team.rank() != 0) return;
    if (mean != nullptr) mean[row] = near + rest;
    if (inverse != nullptr) inverse[row] = factor;
  }
};

template <typename T>
struct RmsNorm {
  const T* x;
  const float* scale;
  T* y;
  float* inverse;  // may be null
  std::int64_t columns;
  float epsilon;
  ASSAY_TEAM void operator()(const Team& team, std::int64_t row) const {
    const std::int64_t first = row * columns;
    float squares = 0;
    for (std::int64_t c = team.rank(); c < columns; c += team.size())
      squares += widen(x[first + c]) * widen(x[first + c]);
    const float factor = 1.0F / sqrtf(team.sum(squares) / static_cast<float>(columns) + epsilon);
    for (std::int64_t c = team.rank(); c < columns; c += team.size())
      y[first + c] = narrow<T>(widen(x[first + c]) * factor * scale[c]);
    if (team.rank() == 0 && inverse != nullptr) inverse[row] = factor;
  }
};

// The operands of a gradient. Without a mean: RMS norm.
template <typename T>
struct NormRows {
  const T *x, *dy;
  const float *scale, *mean, *inverse;
  std::int64_t columns;
  ASSAY_HD float normal(std::int64_t row, std::int64_t c) const {
    return (widen(x[row * columns + c]) - (mean == nullptr ? 0.0F : mean[row])) * inverse[row];
  }
};

// The gradients of some rows, and their sums of dy * normal and of dy in each column. A thread has the same columns of every
// row.
template <typename T>
struct RowGradients {
  NormRows<T> rows;
  const T* addend;                 // may be null
  T* dx;                           // may be x, dy or addend
  float *scale_sums, *shift_sums;  // (parts, columns)
  std::int64_t count, rows_each;
  ASSAY_TEAM void operator()(const Team& team, std::int64_t part) const {
    const std::int64_t columns = rows.columns, begin = part * rows_each;
    const auto width = static_cast<float>(columns);
    for (std::int64_t row = begin; row < smaller(begin + rows_each, count); ++row) {
      const std::int64_t first = row * columns;
      float plain = 0, product = 0;
      for (std::int64_t c = team.rank(); c < columns; c += team.size()) {
        const float dy = widen(rows.dy[first + c]), normal = rows.normal(row, c), g = dy * rows.scale[c];
        plain += g;
        product += g * normal;
        float *const scale_sum = scale_sums + part * columns + c, *const shift_sum =
                                                                      shift_sums + part * columns + c;
        *scale_sum = (row == begin ? 0.0F : *scale_sum) + dy * normal;
        *shift_sum = (row == begin ? 0.0F : *shift_sum) + dy;
      }
      const float level = rows.mean == nullptr ? 0.0F : team.sum(plain) / width;
      const float along = team.sum(product) / width;
      for (std::int64_t c = team.rank(); c < columns; c += team.size()) {
        const float g = widen(rows.dy[first + c]) * rows.scale[c];
        const float own = rows.inverse[row] * (g - level - rows.normal(row, c) * along);
        dx[first + c] = narrow<T>(own + (addend == nullptr ? 0.0F : widen(addend[first + c])));
      }
    }
  }
};

// The totals of both sums, or of the first if `shift` is null.
struct RowTotals {
  const float *scale_sums, *shift_sums;
  float *scale, *shift;
  std::int64_t parts, columns;
  template <typename Threads>
  ASSAY_TEAM void operator()(const Threads& team, std::int64_t i) const {
    const bool of_scale = i < columns;
    const std::int64_t column = of_scale ? i : i - columns;
    const float sum = total_of_column(team, of_scale ? scale_sums : shift_sums, parts, columns, column);
    if (team.rank() == 0) (of_scale ? scale : shift)[column] = sum;
  }
};

// Of the teams that share the rows of a gradient.
constexpr std::int64_t max_row_parts = 1024;

template <bool centered>
Lowered lower_row_norm(const Request& request) {
  Lowered lowered = draft(request, Layout::plain);
  lowered.in_place = in_place(request.node);
  const Stream stream = request.context.device.stream();
  const RowsOfTensor shape(request.in(0));
  const float epsilon = request.number("epsilon");
  lowered.kernel = with_type(request.inputs[0].dtype, [&]<typename T>(T) {
    return make_kernel(
        [=](const Operands& at) {
          if constexpr (centered) {
            for_each_row(stream, shape.rows, shape.columns,
                         LayerNorm<T>{at.in<T>(0), at.in<float>(1), at.in<float>(2), at.out<T>(0),
                                      at.out<float>(1), at.out<float>(2), shape.columns, epsilon});
          } else {
            for_each_row(stream, shape.rows, shape.columns,
                         RmsNorm<T>{at.in<T>(0), at.in<float>(1), at.out<T>(0), at.out<float>(1),
                                    shape.columns, epsilon});
          }
        },
        "own:rows");
  });
  return lowered;
}

// Operands x, scale, dy, [mean], inverse, addend; results dx, scale_gradient, [shift_gradient].
template <bool centered>
Lowered lower_row_norm_gradient(const Request& request) {
  constexpr std::size_t of_inverse = centered ? 4 : 3;
  Lowered lowered = draft(request, Layout::plain);
  lowered.in_place = in_place(request.node);
  const Stream stream = request.context.device.stream();
  const RowsOfTensor shape(request.in(0));
  const std::int64_t rows_each = ceil_div(shape.rows, max_row_parts);
  const std::int64_t parts = ceil_div(shape.rows, rows_each);
  const auto bytes = parts * shape.columns * static_cast<std::int64_t>(sizeof(float));
  Scratch scratch;
  const std::int64_t of_scale = scratch.add(bytes), of_shift = scratch.add(bytes);
  lowered.scratch_bytes = scratch.bytes();
  lowered.kernel = with_type(request.inputs[0].dtype, [&]<typename T>(T) {
    return make_kernel(
        [=](const Operands& at) {
          const NormRows<T> rows{at.in<T>(0),
                                 at.in<T>(2),
                                 at.in<float>(1),
                                 centered ? at.in<float>(3) : nullptr,
                                 at.in<float>(of_inverse),
                                 shape.columns};
          auto *const scale = at.scratch_at<float>(of_scale), *const shift = at.scratch_at<float>(of_shift);
          for_each_row(stream, parts, shape.columns,
                       RowGradients<T>{rows, at.in<T>(of_inverse + 1), at.out<T>(0), scale, shift, shape.rows,
                                       rows_each});
          for_each_total(stream, centered ? 2 * shape.columns : shape.columns, parts,
                         RowTotals{scale, shift, at.out<float>(1), centered ? at.out<float>(2) : nullptr,
                                   parts, shape.columns});
        },
        "own:rows");
  });
  return lowered;
}

}  // namespace

std::span<const OpEntry> row_norm_ops() {
  static constexpr std::array entries{OpEntry{"layer_norm", lower_row_norm<true>},
                                      OpEntry{"layer_norm_gradient", lower_row_norm_gradient<true>},
                                      OpEntry{"rms_norm", lower_row_norm<false>},
                                      OpEntry{"rms_norm_gradient", lower_row_norm_gradient<false>}};
  return entries;
}

}  // namespace assay::cuda
