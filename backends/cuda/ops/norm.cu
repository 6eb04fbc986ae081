// Batch normalisation. The statistics of a channel are combined from parts of its pixels with the formulas of
// Chan, Golub and LeVeque (1979), so that x is read once and no square of a mean is subtracted.
#include "backends/cuda/kernels/columns.hpp"
#include "backends/cuda/lowering.hpp"

namespace assay::cuda {
namespace {

Matrix channels_of(const Shape& x, Layout layout) {
  const Strides strides = strides_of(x, layout);
  return {x[0] * x[2] * x[3], x[1], x[2] * x[3], strides.n, strides.w, strides.c};
}

// The channel of element i in memory order.
ASSAY_HD std::int64_t channel_of(const Matrix& matrix, std::int64_t i) {
  return i / matrix.column % matrix.columns;
}

template <typename T>
struct PartialMoments {
  Matrix matrix;
  const T* x;
  float *means, *squares;  // (parts, channels): a part's mean and sum of squared differences from it
  std::int64_t rows_each;
  ASSAY_HD void operator()(std::int64_t i) const {
    const std::int64_t part = i / matrix.columns, channel = i % matrix.columns;
    const std::int64_t first = part * rows_each, end = smaller(first + rows_each, matrix.rows);
    float mean = 0, sum = 0;
    for (std::int64_t row = first; row < end; ++row) {
      const float value = widen(x[matrix.at(row, channel)]), away = value - mean;
      mean += away / static_cast<float>(row - first + 1);
      sum += away * (value - mean);
    }
    means[i] = mean;
    squares[i] = sum;
  }
};

struct Moments {
  const float *means, *squares;
  std::int64_t parts, channels, rows, rows_each;
  const float *running_mean, *running_variance;
  float *mean, *inverse_std, *new_mean, *new_variance;  // the last two may be null
  float epsilon, momentum;
  ASSAY_HD void operator()(std::int64_t channel) const {
    float count = 0, middle = 0, sum = 0;
    for (std::int64_t part = 0; part < parts; ++part) {
      const auto more = static_cast<float>(smaller(rows_each, rows - part * rows_each));
      const float all = count + more, away = means[part * channels + channel] - middle;
      middle += away * (more / all);
      sum += squares[part * channels + channel] + away * away * (count * (more / all));
      count = all;
    }
    const float variance = sum / static_cast<float>(rows);
    // Last: the new running statistics may share memory with the old ones.
    const float old_mean = running_mean[channel], old_variance = running_variance[channel];
    mean[channel] = middle;
    inverse_std[channel] = 1.0F / sqrtf(variance + epsilon);
    if (new_mean != nullptr) new_mean[channel] = momentum * old_mean + (1.0F - momentum) * middle;
    if (new_variance != nullptr)
      new_variance[channel] = momentum * old_variance + (1.0F - momentum) * variance;
  }
};

template <typename T>
struct Apply {
  Matrix matrix;
  const T *x, *residual;  // residual may be null
  const float *mean, *inverse_std, *weight, *bias;
  const float* variance;  // in inference, instead of inverse_std
  T* y;
  float epsilon;
  bool clipped;
  ASSAY_HD void operator()(std::int64_t i) const {
    const std::int64_t c = channel_of(matrix, i);
    const float inverse = variance != nullptr ? 1.0F / sqrtf(variance[c] + epsilon) : inverse_std[c];
    float value = (widen(x[i]) - mean[c]) * inverse * weight[c] + bias[c];
    if (residual != nullptr) value += widen(residual[i]);
    y[i] = narrow<T>(clipped ? relu(value) : value);
  }
};

Lowered lower_forward(const Request& request) {
  const Layout layout = request.follow({0, 5});
  Lowered lowered = draft(request, layout);
  lowered.in_place = in_place(request.node);
  const Stream stream = request.context.device.stream();
  const Matrix matrix = channels_of(request.in(0), layout);
  const bool training = request.node.attributes.get<bool>("training"), clipped = request.relu();
  const float epsilon = request.number("epsilon"), momentum = request.number("momentum");
  Scratch scratch;
  const std::int64_t means = scratch.add(column_sum_scratch(matrix));
  const std::int64_t squares = scratch.add(column_sum_scratch(matrix));
  const std::int64_t of_channel = matrix.columns * static_cast<std::int64_t>(sizeof(float));
  const std::int64_t own_mean = scratch.add(of_channel), own_inverse = scratch.add(of_channel);
  if (training) lowered.scratch_bytes = scratch.bytes();
  lowered.kernel = with_type(request.inputs[0].dtype, [&]<typename T>(T) {
    return make_kernel(
        [=, n = request.inputs[0].elements()](const Operands& at) {
          Apply<T> apply{matrix,       at.in<T>(0),     at.in<T>(5),     at.in<float>(3),
                         nullptr,      at.in<float>(1), at.in<float>(2), at.in<float>(4),
                         at.out<T>(0), epsilon,         clipped};
          if (training) {
            const std::int64_t parts = parts_of(matrix), rows_each = rows_of_part(matrix);
            auto* const mean =
                at.out<float>(1) != nullptr ? at.out<float>(1) : at.scratch_at<float>(own_mean);
            auto* const inverse =
                at.out<float>(2) != nullptr ? at.out<float>(2) : at.scratch_at<float>(own_inverse);
            for_each(stream, parts * matrix.columns,
                     PartialMoments<T>{matrix, at.in<T>(0), at.scratch_at<float>(means),
                                       at.scratch_at<float>(squares), rows_each});
            for_each(stream, matrix.columns,
                     Moments{at.scratch_at<float>(means), at.scratch_at<float>(squares), parts,
                             matrix.columns, matrix.rows, rows_each, at.in<float>(3), at.in<float>(4), mean,
                             inverse, at.out<float>(3), at.out<float>(4), epsilon, momentum});
            apply.mean = mean;
            apply.inverse_std = inverse;
            apply.variance = nullptr;
          }
          for_each(stream, n, apply);
        },
        "own:norm");
  });
  return lowered;
}

// The values that the gradient reads at one element.
template <typename T>
struct Above {
  const T *x, *dy, *activated, *addend;             // the last two may be null
  const float *mean, *inverse_std, *weight, *bias;  // bias may be null
  ASSAY_HD float h(std::int64_t i, std::int64_t c) const { return (widen(x[i]) - mean[c]) * inverse_std[c]; }
  // dy plus the addend, after the gradient of the ReLU.
  ASSAY_HD float total(std::int64_t i, std::int64_t c) const {
    float value = widen(dy[i]);
    if (addend != nullptr) value += widen(addend[i]);
    if (activated != nullptr && widen(activated[i]) <= 0) value = 0;
    if (bias != nullptr && h(i, c) * weight[c] + bias[c] <= 0) value = 0;
    return value;
  }
};

template <typename T>
struct PartialGradient {
  Matrix matrix;
  Above<T> above;
  float *dy, *dy_h, *h;  // (parts, channels) each: sums of dy, dy * h, h
  std::int64_t rows_each;
  ASSAY_HD void operator()(std::int64_t i) const {
    const std::int64_t part = i / matrix.columns, c = i % matrix.columns;
    float sum = 0, weighted = 0, plain = 0;
    for (std::int64_t row = part * rows_each; row < smaller((part + 1) * rows_each, matrix.rows); ++row) {
      const std::int64_t at = matrix.at(row, c);
      const float value = above.total(at, c), normal = above.h(at, c);
      sum += value;
      weighted += value * normal;
      plain += normal;
    }
    dy[i] = sum;
    dy_h[i] = weighted;
    h[i] = plain;
  }
};

struct TotalGradient {
  const float *dy, *dy_h, *h;
  std::int64_t parts, channels, rows;
  const float *weight, *inverse_std;
  float *dweight, *dbias, *dx_sum;  // the last may be null
  ASSAY_HD void operator()(std::int64_t c) const {
    float sum = 0, weighted = 0, plain = 0;
    for (std::int64_t part = 0; part < parts; ++part) {
      sum += dy[part * channels + c];
      weighted += dy_h[part * channels + c];
      plain += h[part * channels + c];
    }
    dweight[c] = weighted;
    dbias[c] = sum;
    // The sum of dx over the channel: the terms of dy and its mean cancel.
    if (dx_sum != nullptr)
      dx_sum[c] = -weight[c] * inverse_std[c] * weighted * plain / static_cast<float>(rows);
  }
};

template <typename T>
struct InputGradient {
  Matrix matrix;
  Above<T> above;
  const float *dweight, *dbias;
  T *dx, *dy_total;  // dy_total may be null
  ASSAY_HD void operator()(std::int64_t i) const {
    const std::int64_t c = channel_of(matrix, i);
    const float dy = above.total(i, c);
    const float mean = (dbias[c] + above.h(i, c) * dweight[c]) / static_cast<float>(matrix.rows);
    const float value = above.weight[c] * above.inverse_std[c] * (dy - mean);
    // Last: results may share memory with operands.
    if (dy_total != nullptr) dy_total[i] = narrow<T>(dy);
    dx[i] = narrow<T>(value);
  }
};

Lowered lower_gradient(const Request& request) {
  const Layout layout = request.follow({0, 4});
  Lowered lowered = draft(request, layout);
  lowered.in_place = in_place(request.node);
  const Stream stream = request.context.device.stream();
  const Matrix matrix = channels_of(request.in(0), layout);
  Scratch scratch;
  const std::int64_t of_dy = scratch.add(column_sum_scratch(matrix));
  const std::int64_t of_dy_h = scratch.add(column_sum_scratch(matrix));
  const std::int64_t of_h = scratch.add(column_sum_scratch(matrix));
  lowered.scratch_bytes = scratch.bytes();
  lowered.kernel = with_type(request.inputs[0].dtype, [&]<typename T>(T) {
    return make_kernel(
        [=, n = request.inputs[0].elements()](const Operands& at) {
          const Above<T> above{at.in<T>(0),     at.in<T>(4),     at.in<T>(6),     at.in<T>(7),
                               at.in<float>(2), at.in<float>(3), at.in<float>(1), at.in<float>(5)};
          const std::int64_t parts = parts_of(matrix), rows_each = rows_of_part(matrix);
          auto *const dy = at.scratch_at<float>(of_dy), *const dy_h = at.scratch_at<float>(of_dy_h),
                      *const h = at.scratch_at<float>(of_h);
          for_each(stream, parts * matrix.columns, PartialGradient<T>{matrix, above, dy, dy_h, h, rows_each});
          for_each(stream, matrix.columns,
                   TotalGradient{dy, dy_h, h, parts, matrix.columns, matrix.rows, above.weight,
                                 above.inverse_std, at.out<float>(1), at.out<float>(2), at.out<float>(3)});
          for_each(stream, n,
                   InputGradient<T>{matrix, above, at.out<float>(1), at.out<float>(2), at.out<T>(0),
                                    at.out<T>(4)});
        },
        "own:norm");
  });
  return lowered;
}

}  // namespace

std::span<const OpEntry> norm_ops() {
  static constexpr std::array entries{OpEntry{"batch_norm", lower_forward},
                                      OpEntry{"batch_norm_gradient", lower_gradient}};
  return entries;
}

}  // namespace assay::cuda
