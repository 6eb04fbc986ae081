// Layer norm and RMS norm over the last dimension, and their gradients: one team of threads per row, and the
// gradients of scale and shift as sums over the rows in two rounds with a fixed order.
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

template <typename T>
struct RowInputGradient {
  NormRows<T> rows;
  T* dx;
  ASSAY_TEAM void operator()(const Team& team, std::int64_t row) const {
    const std::int64_t first = row * rows.columns;
    const auto count = static_cast<float>(rows.columns);
    float plain = 0, product = 0;
    for (std::int64_t c = team.rank(); c < rows.columns; c += team.size()) {
      const float g = widen(rows.dy[first + c]) * rows.scale[c];
      plain += g;
      product += g * rows.normal(row, c);
    }
    const float level = rows.mean == nullptr ? 0.0F : team.sum(plain) / count;
    const float along = team.sum(product) / count;
    for (std::int64_t c = team.rank(); c < rows.columns; c += team.size()) {
      const float g = widen(rows.dy[first + c]) * rows.scale[c];
      dx[first + c] = narrow<T>(rows.inverse[row] * (g - level - rows.normal(row, c) * along));
    }
  }
};

// Sums of some rows, in one column: of dy * normal and of dy.
template <typename T>
struct PartialSums {
  NormRows<T> rows;
  float *scale_sums, *shift_sums;  // (parts, columns)
  std::int64_t count, rows_each;
  ASSAY_HD void operator()(std::int64_t i) const {
    const std::int64_t part = i / rows.columns, c = i % rows.columns;
    float weighted = 0, plain = 0;
    for (std::int64_t row = part * rows_each; row < smaller((part + 1) * rows_each, count); ++row) {
      const float dy = widen(rows.dy[row * rows.columns + c]);
      weighted += dy * rows.normal(row, c);
      plain += dy;
    }
    scale_sums[i] = weighted;
    shift_sums[i] = plain;
  }
};

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

// Operands x, scale, dy, [mean], inverse; results dx, scale_gradient, [shift_gradient].
template <bool centered>
Lowered lower_row_norm_gradient(const Request& request) {
  Lowered lowered = draft(request, Layout::plain);
  lowered.in_place = in_place(request.node);
  const Stream stream = request.context.device.stream();
  const RowsOfTensor shape(request.in(0));
  const Matrix matrix = matrix_of_rows(shape.rows, shape.columns);
  Scratch scratch;
  const std::int64_t of_scale = scratch.add(column_sum_scratch(matrix));
  const std::int64_t of_shift = scratch.add(column_sum_scratch(matrix));
  lowered.scratch_bytes = scratch.bytes();
  lowered.kernel = with_type(request.inputs[0].dtype, [&]<typename T>(T) {
    return make_kernel(
        [=](const Operands& at) {
          const NormRows<T> rows{at.in<T>(0),
                                 at.in<T>(2),
                                 at.in<float>(1),
                                 centered ? at.in<float>(3) : nullptr,
                                 at.in<float>(centered ? 4 : 3),
                                 shape.columns};
          auto *const scale = at.scratch_at<float>(of_scale), *const shift = at.scratch_at<float>(of_shift);
          const std::int64_t parts = parts_of(matrix);
          // Before dx, which may overwrite x or dy.
          for_each(stream, parts * shape.columns,
                   PartialSums<T>{rows, scale, shift, shape.rows, rows_of_part(matrix)});
          for_each_total(stream, shape.columns, parts,
                         TotalColumnSum{scale, at.out<float>(1), parts, shape.columns});
          if (centered)
            for_each_total(stream, shape.columns, parts,
                           TotalColumnSum{shift, at.out<float>(2), parts, shape.columns});
          for_each_row(stream, shape.rows, shape.columns, RowInputGradient<T>{rows, at.out<T>(0)});
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
