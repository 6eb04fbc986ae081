// Batch normalisation. The statistics of a channel are combined from parts of its pixels with the formulas of
// Chan, Golub and LeVeque (1979), so that x is read once and no square of a mean is subtracted.
#include "backends/cuda/kernels/columns.hpp"
#include "backends/cuda/kernels/divisor.hpp"
#include "backends/cuda/kernels/vector.hpp"
#include "backends/cuda/lowering.hpp"

namespace assay::cuda {
namespace {

Matrix channels_of(const Shape& x, Layout layout) {
  const Strides strides = strides_of(x, layout);
  return {x[0] * x[2] * x[3], x[1], x[2] * x[3], strides.n, strides.w, strides.c};
}

// The channels of elements in memory order.
class Channels {
 public:
  explicit Channels(const Matrix& matrix)
      : column_(matrix.column),
        columns_(matrix.columns),
        by_column_(matrix.column),
        by_columns_(matrix.columns),
        small_(matrix.rows * matrix.columns < end_of_dividends) {}

  ASSAY_HD std::int64_t of(std::int64_t i) const {
    if (!small_) return i / column_ % columns_;
    return by_columns_.remainder(by_column_.quotient(static_cast<std::uint32_t>(i)));
  }
  // Whether vectors of `width` elements lie in one channel, or in neighbouring ones, each with as many.
  bool hold(std::int64_t width) const { return (column_ == 1 ? columns_ : column_) % width == 0; }
  // From the channel of an element to that of the next in a vector.
  ASSAY_HD std::int64_t step() const { return column_ == 1 ? 1 : 0; }

 private:
  std::int64_t column_, columns_;
  Divisor by_column_, by_columns_;
  bool small_;
};

// Enqueues body over n elements: body.one(i), or body.vector(i) from each multiple i of a vector's size.
template <typename T, typename Body>
struct ByVector {
  Body body;
  ASSAY_HD void operator()(std::int64_t i) const { body.vector(i * Vector<T>::size); }
};
template <typename Body>
struct ByElement {
  Body body;
  ASSAY_HD void operator()(std::int64_t i) const { body.one(i); }
};
template <typename T, typename Body>
void for_each_of_channels(Stream stream, std::int64_t n, bool aligned, const Body& body) {
  if (aligned && body.channels.hold(Vector<T>::size)) {
    for_each(stream, n / Vector<T>::size, ByVector<T, Body>{body});
  } else {
    for_each(stream, n, ByElement<Body>{body});
  }
}

// How the rows of all channels are divided for the first round of the statistics. With lanes, the channels are the last
// dimension, and a lane is a vector of them: a team reads whole rows, each thread one lane of every few rows.
// Without, each part of each channel is added up by itself. The gradient has three sums, and no lanes: with them it
// took 18 us instead of 15 on an H200 (docs/measurements/gpu.md).
struct Division {
  std::int64_t parts, rows_each;
  int lanes = 0;
  std::int64_t scratch(const Matrix& matrix) const {
    return parts * matrix.columns * static_cast<std::int64_t>(sizeof(float));
  }
};

Division divide(const Matrix& matrix, DType dtype) {
  constexpr std::int64_t threads = 256, rows_of_thread = 2, max_parts = 256;
  const std::int64_t width = static_cast<std::int64_t>(sizeof(Vector<float>)) / size_of(dtype);
  const std::int64_t lanes = matrix.columns / width;
  const bool has_lanes = matrix.column == 1 && matrix.columns % width == 0 && matrix.pixel % width == 0 &&
                         lanes <= 32 && 32 % lanes == 0;
  if (!has_lanes) return {parts_of(matrix), rows_of_part(matrix)};
  const std::int64_t rows_each = larger(rows_of_thread * threads / lanes, ceil_div(matrix.rows, max_parts));
  return {ceil_div(matrix.rows, rows_each), rows_each, static_cast<int>(lanes)};
}

// body(team, part), by teams that read rows of lanes.
template <typename Body>
void for_each_of_lanes(Stream stream, const Division& division, const Body& body) {
  for_each_row(stream, division.parts, 2 * division.rows_each * division.lanes, body);
}

// Moments of a part's differences from its first row, which is not far from their mean.
template <typename T>
struct LaneMoments {
  Matrix matrix;
  Division division;
  const T* x;
  float *means, *squares;  // as PartialMoments
  bool aligned;
  ASSAY_TEAM void operator()(const Team& team, std::int64_t part) const {
    constexpr int width = Vector<T>::size;
    const std::int64_t first = part * division.rows_each,
                       end = smaller(first + division.rows_each, matrix.rows);
    const int lanes = division.lanes;
    // On the device a thread has one lane; on the host one has all.
    for (int lane = team.rank() % lanes; lane < lanes; lane += team.size() < lanes ? team.size() : lanes) {
      const std::int64_t channel = std::int64_t{lane} * width;
      const int step = team.size() < lanes ? 1 : team.size() / lanes;
      const Vector<T> base = load(x + matrix.at(first, channel), aligned);
      float sum[width] = {}, square[width] = {};
      for (std::int64_t row = first + team.rank() / lanes; row < end; row += step) {
        const Vector<T> values = load(x + matrix.at(row, channel), aligned);
        for (int v = 0; v < width; ++v) {
          const float away = widen(values.of[v]) - widen(base.of[v]);
          sum[v] += away;
          square[v] += away * away;
        }
      }
      for (int v = 0; v < width; ++v) {
        const float total = team.sum_of_lane(sum[v], lanes);
        const float squared = team.sum_of_lane(square[v], lanes);
        if (team.rank() >= lanes) continue;
        const float away = total / static_cast<float>(end - first);
        means[part * matrix.columns + channel + v] = widen(base.of[v]) + away;
        squares[part * matrix.columns + channel + v] = fmaxf(0.0F, squared - total * away);
      }
    }
  }
};

template <typename T>
struct PartialMoments {
  Matrix matrix;
  const T* x;
  float *means, *squares;  // (parts, channels): a part's mean and sum of squared differences from it
  std::int64_t rows_each;
  template <typename Threads>
  ASSAY_TEAM void operator()(const Threads& team, std::int64_t i) const {
    const std::int64_t part = i / matrix.columns, channel = i % matrix.columns;
    const std::int64_t first = part * rows_each, end = smaller(first + rows_each, matrix.rows);
    float mean = 0, sum = 0, count = 0;
    for (std::int64_t row = first + team.rank(); row < end; row += team.size()) {
      const float value = widen(x[matrix.at(row, channel)]), away = value - mean;
      count += 1;
      mean += away / count;
      sum += away * (value - mean);
    }
    if (team.size() > 1) {
      const float middle = team.sum(count * mean) / static_cast<float>(end - first), away = mean - middle;
      sum = team.sum(sum + count * away * away);
      mean = middle;
    }
    if (team.rank() != 0) return;
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
  template <typename Threads>
  ASSAY_TEAM void operator()(const Threads& team, std::int64_t channel) const {
    const auto count = static_cast<float>(rows);
    const auto in_part = [&](std::int64_t part) {
      return static_cast<float>(smaller(rows_each, rows - part * rows_each));
    };
    const float middle = team.sum(long_sum(team, 0, parts, [&](std::int64_t part) {
      return in_part(part) * means[part * channels + channel];
    })) / count;
    const float variance = team.sum(long_sum(team, 0, parts, [&](std::int64_t part) {
      const float away = means[part * channels + channel] - middle;
      return squares[part * channels + channel] + in_part(part) * away * away;
    })) / count;
    if (team.rank() != 0) return;
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
  Channels channels;
  const T *x, *residual;  // residual may be null
  const float *mean, *inverse_std, *weight, *bias;
  const float* variance;  // in inference, instead of inverse_std
  T* y;
  float epsilon;
  bool clipped;
  ASSAY_HD T at(std::int64_t c, T of_x, float addend) const {
    const float inverse = variance != nullptr ? 1.0F / sqrtf(variance[c] + epsilon) : inverse_std[c];
    const float value = (widen(of_x) - mean[c]) * inverse * weight[c] + bias[c] + addend;
    return narrow<T>(clipped ? relu(value) : value);
  }
  ASSAY_HD void one(std::int64_t i) const {
    y[i] = at(channels.of(i), x[i], residual != nullptr ? widen(residual[i]) : 0.0F);
  }
  ASSAY_HD void vector(std::int64_t i) const {
    const std::int64_t c = channels.of(i), step = channels.step();
    const Vector<T> of_x = load(x + i);
    Vector<T> addend{}, result;
    if (residual != nullptr) addend = load(residual + i);
    for (int v = 0; v < Vector<T>::size; ++v)
      result.of[v] = at(c + v * step, of_x.of[v], residual != nullptr ? widen(addend.of[v]) : 0.0F);
    store(y + i, result);
  }
};

Lowered lower_batch_norm(const Request& request) {
  const Layout layout = request.follow({0, 5});
  Lowered lowered = draft(request, layout);
  lowered.in_place = in_place(request.node);
  const Stream stream = request.context.device.stream();
  const Matrix matrix = channels_of(request.in(0), layout);
  const bool training = request.node.attributes.get<bool>("training"), clipped = request.relu();
  const float epsilon = request.number("epsilon"), momentum = request.number("momentum");
  const Division division = divide(matrix, request.inputs[0].dtype);
  Scratch scratch;
  const std::int64_t means = scratch.add(division.scratch(matrix));
  const std::int64_t squares = scratch.add(division.scratch(matrix));
  const std::int64_t of_channel = matrix.columns * static_cast<std::int64_t>(sizeof(float));
  const std::int64_t own_mean = scratch.add(of_channel), own_inverse = scratch.add(of_channel);
  if (training) lowered.scratch_bytes = scratch.bytes();
  lowered.kernel = with_type(request.inputs[0].dtype, [&]<typename T>(T) {
    return make_kernel(
        [=, n = request.inputs[0].elements()](const Operands& at) {
          Apply<T> apply{Channels(matrix), at.in<T>(0),     at.in<T>(5),     at.in<float>(3),
                         nullptr,          at.in<float>(1), at.in<float>(2), at.in<float>(4),
                         at.out<T>(0),     epsilon,         clipped};
          if (training) {
            auto* const mean =
                at.out<float>(1) != nullptr ? at.out<float>(1) : at.scratch_at<float>(own_mean);
            auto* const inverse =
                at.out<float>(2) != nullptr ? at.out<float>(2) : at.scratch_at<float>(own_inverse);
            auto *const all_means = at.scratch_at<float>(means), *const all_squares =
                                                                     at.scratch_at<float>(squares);
            if (division.lanes > 0) {
              for_each_of_lanes(stream, division,
                                LaneMoments<T>{matrix, division, at.in<T>(0), all_means, all_squares,
                                               are_aligned(at.in<T>(0))});
            } else {
              for_each_part(
                  stream, matrix,
                  PartialMoments<T>{matrix, at.in<T>(0), all_means, all_squares, division.rows_each});
            }
            for_each_total(stream, matrix.columns, division.parts,
                           Moments{all_means, all_squares, division.parts, matrix.columns, matrix.rows,
                                   division.rows_each, at.in<float>(3), at.in<float>(4), mean, inverse,
                                   at.out<float>(3), at.out<float>(4), epsilon, momentum});
            apply.mean = mean;
            apply.inverse_std = inverse;
            apply.variance = nullptr;
          }
          for_each_of_channels<T>(stream, n, are_aligned(apply.x, apply.residual, apply.y), apply);
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
  // The element's values, read once.
  struct Values {
    T x{}, dy{}, activated{}, addend{};
  };
  ASSAY_HD Values at(std::int64_t i) const {
    Values values{x[i], dy[i]};
    if (activated != nullptr) values.activated = activated[i];
    if (addend != nullptr) values.addend = addend[i];
    return values;
  }
  ASSAY_HD float h(const Values& of, std::int64_t c) const {
    return (widen(of.x) - mean[c]) * inverse_std[c];
  }
  // dy plus the addend, after the gradient of the ReLU. normal: h() of the element.
  ASSAY_HD float total(const Values& of, std::int64_t c, float normal) const {
    float value = widen(of.dy);
    if (addend != nullptr) value += widen(of.addend);
    if (activated != nullptr && widen(of.activated) <= 0) value = 0;
    if (bias != nullptr && normal * weight[c] + bias[c] <= 0) value = 0;
    return value;
  }
};

template <typename T>
struct PartialGradient {
  Matrix matrix;
  Above<T> above;
  float *dy, *dy_h, *h;  // (parts, channels) each: sums of dy, dy * h, h
  std::int64_t rows_each;
  template <typename Threads>
  ASSAY_TEAM void operator()(const Threads& team, std::int64_t i) const {
    const std::int64_t part = i / matrix.columns, c = i % matrix.columns;
    const std::int64_t first = part * rows_each, end = smaller(first + rows_each, matrix.rows);
    float sum = 0, weighted = 0, plain = 0;
    for (std::int64_t row = first + team.rank(); row < end; row += team.size()) {
      const auto values = above.at(matrix.at(row, c));
      const float normal = above.h(values, c), value = above.total(values, c, normal);
      sum += value;
      weighted += value * normal;
      plain += normal;
    }
    sum = team.sum(sum);
    weighted = team.sum(weighted);
    plain = team.sum(plain);
    if (team.rank() != 0) return;
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
  template <typename Threads>
  ASSAY_TEAM void operator()(const Threads& team, std::int64_t c) const {
    const float sum = total_of_column(team, dy, parts, channels, c);
    const float weighted = total_of_column(team, dy_h, parts, channels, c);
    const float plain = total_of_column(team, h, parts, channels, c);
    if (team.rank() != 0) return;
    dweight[c] = weighted;
    dbias[c] = sum;
    // The sum of dx over the channel: the terms of dy and its mean cancel.
    if (dx_sum != nullptr)
      dx_sum[c] = -weight[c] * inverse_std[c] * weighted * plain / static_cast<float>(rows);
  }
};

template <typename T>
struct NormInputGradient {
  Channels channels;
  Above<T> above;
  const float *dweight, *dbias;
  T *dx, *dy_total;  // dy_total may be null
  float rows;
  struct Pair {
    T dx, dy;
  };
  ASSAY_HD Pair at(std::int64_t c, const typename Above<T>::Values& of) const {
    const float normal = above.h(of, c), dy = above.total(of, c, normal);
    const float mean = (dbias[c] + normal * dweight[c]) / rows;
    return {narrow<T>(above.weight[c] * above.inverse_std[c] * (dy - mean)), narrow<T>(dy)};
  }
  // Both write last: results may share memory with operands.
  ASSAY_HD void one(std::int64_t i) const {
    const Pair pair = at(channels.of(i), above.at(i));
    if (dy_total != nullptr) dy_total[i] = pair.dy;
    dx[i] = pair.dx;
  }
  ASSAY_HD void vector(std::int64_t i) const {
    const std::int64_t c = channels.of(i), step = channels.step();
    const Vector<T> x = load(above.x + i), dy = load(above.dy + i);
    Vector<T> activated{}, addend{}, of_dx, of_dy;
    if (above.activated != nullptr) activated = load(above.activated + i);
    if (above.addend != nullptr) addend = load(above.addend + i);
    for (int v = 0; v < Vector<T>::size; ++v) {
      const Pair pair = at(c + v * step, {x.of[v], dy.of[v], activated.of[v], addend.of[v]});
      of_dx.of[v] = pair.dx;
      of_dy.of[v] = pair.dy;
    }
    if (dy_total != nullptr) store(dy_total + i, of_dy);
    store(dx + i, of_dx);
  }
};

Lowered lower_batch_norm_gradient(const Request& request) {
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
          auto *const dy = at.scratch_at<float>(of_dy), *const dy_h = at.scratch_at<float>(of_dy_h),
                      *const h = at.scratch_at<float>(of_h);
          const std::int64_t parts = parts_of(matrix);
          for_each_part(stream, matrix, PartialGradient<T>{matrix, above, dy, dy_h, h, rows_of_part(matrix)});
          for_each_total(
              stream, matrix.columns, parts,
              TotalGradient{dy, dy_h, h, parts, matrix.columns, matrix.rows, above.weight, above.inverse_std,
                            at.out<float>(1), at.out<float>(2), at.out<float>(3)});
          const NormInputGradient<T> last{Channels(matrix),
                                          above,
                                          at.out<float>(1),
                                          at.out<float>(2),
                                          at.out<T>(0),
                                          at.out<T>(4),
                                          static_cast<float>(matrix.rows)};
          const bool aligned =
              are_aligned(above.x, above.dy, above.activated, above.addend, last.dx, last.dy_total);
          for_each_of_channels<T>(stream, n, aligned, last);
        },
        "own:norm");
  });
  return lowered;
}

}  // namespace

std::span<const OpEntry> norm_ops() {
  static constexpr std::array entries{OpEntry{"batch_norm", lower_batch_norm},
                                      OpEntry{"batch_norm_gradient", lower_batch_norm_gradient}};
  return entries;
}

}  // namespace assay::cuda
