// Batch normalisation by our own kernels. The statistics of a channel are combined from parts of its pixels with the formulas of
// Chan, Golub and LeVeque (1979), so that x is read once and no square of a mean is subtracted.
#include "backends/cuda/kernels/columns.hpp"
#include "backends/cuda/kernels/divisor.hpp"
#include "backends/cuda/kernels/vector.hpp"
#include "backends/cuda/lowering.hpp"
#include "backends/cuda/own_norm.hpp"

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

// A thread's share of the elements, whose bits in a mask are one byte.
constexpr std::int64_t norm_share = 8;

ASSAY_HD inline bool is_open(const std::uint8_t* mask, std::int64_t i) {
  return (mask[i / 8] >> i % 8 & 1U) != 0;
}

// Enqueues body over n elements: body.one(i), or body.vector(i) from each multiple i of a vector's size, return a bit for each
// element, which go to body.bits if that is not null.
template <typename T, typename Body>
struct ByVector {
  Body body;
  ASSAY_HD void operator()(std::int64_t i) const { body.vector(i * Vector<T>::size); }
};
template <typename T, typename Body>
struct ByVectorsOfByte {
  Body body;
  ASSAY_HD void operator()(std::int64_t share) const {
    unsigned bits = 0;
    for (int v = 0; v < norm_share; v += Vector<T>::size) bits |= body.vector(share * norm_share + v) << v;
    body.bits[share] = static_cast<std::uint8_t>(bits);
  }
};
template <typename Body>
struct ByByte {
  Body body;
  std::int64_t elements;
  ASSAY_HD void operator()(std::int64_t share) const {
    const std::int64_t first = share * norm_share, end = smaller(first + norm_share, elements);
    unsigned bits = 0;
    for (std::int64_t i = first; i < end; ++i) bits |= body.one(i) << (i - first);
    body.bits[share] = static_cast<std::uint8_t>(bits);
  }
};
template <typename Body>
struct ByElement {
  Body body;
  ASSAY_HD void operator()(std::int64_t i) const { body.one(i); }
};
template <typename T, typename Body>
void for_each_of_channels(Stream stream, std::int64_t n, bool aligned, const Body& body) {
  const bool by_vector = aligned && body.channels.hold(Vector<T>::size);
  if (by_vector && body.bits == nullptr) {
    for_each(stream, n / Vector<T>::size, ByVector<T, Body>{body});
  } else if (by_vector && n % norm_share == 0) {
    for_each(stream, n / norm_share, ByVectorsOfByte<T, Body>{body});
  } else if (body.bits != nullptr) {
    for_each(stream, ceil_div(n, norm_share), ByByte<Body>{body, n});
  } else {
    for_each(stream, n, ByElement<Body>{body});
  }
}

// How the rows of all channels are divided for the first round of the statistics. With lanes, the channels are the last
// dimension, and a lane is a vector of them: a team reads whole rows, each thread one lane of every few rows.
// Without, each part of each channel is added up by itself. The gradient has no lanes: with them, and with three sums, it
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
  float *mean, *inverse_std;
  float epsilon;
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
    mean[channel] = middle;
    inverse_std[channel] = 1.0F / sqrtf(variance + epsilon);
  }
};

template <typename T>
struct Apply {
  Channels channels;
  const T *x, *residual;  // residual may be null
  const float *mean, *inverse_std, *weight, *bias;
  const float* variance;  // in inference, instead of inverse_std
  T* y;
  std::uint8_t* bits;  // y > 0; may be null
  float epsilon;
  bool clipped;
  ASSAY_HD T at(std::int64_t c, T of_x, float addend) const {
    const float inverse = variance != nullptr ? 1.0F / sqrtf(variance[c] + epsilon) : inverse_std[c];
    const float value = (widen(of_x) - mean[c]) * inverse * weight[c] + bias[c] + addend;
    return narrow<T>(clipped ? relu(value) : value);
  }
  ASSAY_HD unsigned one(std::int64_t i) const {
    const T result = at(channels.of(i), x[i], residual != nullptr ? widen(residual[i]) : 0.0F);
    y[i] = result;
    return widen(result) > 0 ? 1 : 0;
  }
  ASSAY_HD unsigned vector(std::int64_t i) const {
    const std::int64_t c = channels.of(i), step = channels.step();
    const Vector<T> of_x = load(x + i);
    Vector<T> addend{}, result;
    if (residual != nullptr) addend = load(residual + i);
    unsigned above = 0;
    for (int v = 0; v < Vector<T>::size; ++v) {
      result.of[v] = at(c + v * step, of_x.of[v], residual != nullptr ? widen(addend.of[v]) : 0.0F);
      if (widen(result.of[v]) > 0) above |= 1U << v;
    }
    store(y + i, result);
    return above;
  }
};

// The values that the gradient reads at one element.
template <typename T>
struct Above {
  const T *x, *dy, *activated, *addend;             // the last two may be null
  const float *mean, *inverse_std, *weight, *bias;  // bias may be null
  const std::uint8_t* mask;                         // may be null
  // The element's values, read once.
  struct Values {
    T x{}, dy{}, activated{}, addend{};
    bool open = true;
  };
  ASSAY_HD Values at(std::int64_t i) const {
    Values values{x[i], dy[i]};
    if (activated != nullptr) values.activated = activated[i];
    if (addend != nullptr) values.addend = addend[i];
    if (mask != nullptr) values.open = is_open(mask, i);
    return values;
  }
  ASSAY_HD float h(const Values& of, std::int64_t c) const {
    return (widen(of.x) - mean[c]) * inverse_std[c];
  }
  // dy plus the addend, after the gradient of the ReLU. normal: h() of the element.
  ASSAY_HD float total(const Values& of, std::int64_t c, float normal) const {
    float value = widen(of.dy);
    if (addend != nullptr) value += widen(of.addend);
    if (!of.open || (activated != nullptr && widen(of.activated) <= 0)) value = 0;
    if (bias != nullptr && normal * weight[c] + bias[c] <= 0) value = 0;
    return value;
  }
};

template <typename T>
struct PartialGradient {
  Matrix matrix;
  Above<T> above;
  float *dy, *dy_h;  // (parts, channels) each: sums of dy and dy * h
  std::int64_t rows_each;
  template <typename Threads>
  ASSAY_TEAM void operator()(const Threads& team, std::int64_t i) const {
    const std::int64_t part = i / matrix.columns, c = i % matrix.columns;
    const std::int64_t first = part * rows_each, end = smaller(first + rows_each, matrix.rows);
    float sum = 0, weighted = 0;
    for (std::int64_t row = first + team.rank(); row < end; row += team.size()) {
      const auto values = above.at(matrix.at(row, c));
      const float normal = above.h(values, c), value = above.total(values, c, normal);
      sum += value;
      weighted += value * normal;
    }
    sum = team.sum(sum);
    weighted = team.sum(weighted);
    if (team.rank() != 0) return;
    dy[i] = sum;
    dy_h[i] = weighted;
  }
};

struct TotalGradient {
  const float *dy, *dy_h;
  std::int64_t parts, channels;
  float *dweight, *dbias;
  template <typename Threads>
  ASSAY_TEAM void operator()(const Threads& team, std::int64_t c) const {
    const float sum = total_of_column(team, dy, parts, channels, c);
    const float weighted = total_of_column(team, dy_h, parts, channels, c);
    if (team.rank() != 0) return;
    dweight[c] = weighted;
    dbias[c] = sum;
  }
};

template <typename T>
struct NormInputGradient {
  Channels channels;
  Above<T> above;
  const float *dweight, *dbias;
  T *dx, *dy_total;  // dy_total may be null
  float rows;
  std::uint8_t* bits = nullptr;  // it writes no mask
  struct Pair {
    T dx, dy;
  };
  ASSAY_HD Pair at(std::int64_t c, const typename Above<T>::Values& of) const {
    const float normal = above.h(of, c), dy = above.total(of, c, normal);
    const float mean = (dbias[c] + normal * dweight[c]) / rows;
    return {narrow<T>(above.weight[c] * above.inverse_std[c] * (dy - mean)), narrow<T>(dy)};
  }
  // Both write last: results may share memory with operands.
  ASSAY_HD unsigned one(std::int64_t i) const {
    const Pair pair = at(channels.of(i), above.at(i));
    if (dy_total != nullptr) dy_total[i] = pair.dy;
    dx[i] = pair.dx;
    return 0;
  }
  ASSAY_HD unsigned vector(std::int64_t i) const {
    const std::int64_t c = channels.of(i), step = channels.step();
    const Vector<T> x = load(above.x + i), dy = load(above.dy + i);
    Vector<T> activated{}, addend{}, of_dx, of_dy;
    if (above.activated != nullptr) activated = load(above.activated + i);
    if (above.addend != nullptr) addend = load(above.addend + i);
    for (int v = 0; v < Vector<T>::size; ++v) {
      const bool open = above.mask == nullptr || is_open(above.mask, i + v);
      const Pair pair = at(c + v * step, {x.of[v], dy.of[v], activated.of[v], addend.of[v], open});
      of_dx.of[v] = pair.dx;
      of_dy.of[v] = pair.dy;
    }
    if (dy_total != nullptr) store(dy_total + i, of_dy);
    store(dx + i, of_dx);
    return 0;
  }
};

class OwnNorm final : public Norm {
 public:
  OwnNorm(const NormSpec& spec, Stream stream, std::string name)
      : spec_(spec),
        stream_(stream),
        name_(std::move(name)),
        matrix_(channels_of(spec.image(), spec.channels_last ? Layout::channels_last : Layout::plain)),
        division_(divide(matrix_, spec.operands)) {
    if (spec.kind == NormSpec::Kind::inference) return;
    const bool forward = spec.kind == NormSpec::Kind::forward;
    const std::int64_t of_parts = forward ? division_.scratch(matrix_) : column_sum_scratch(matrix_);
    first_ = scratch_.add(of_parts);
    second_ = scratch_.add(of_parts);
  }

  std::int64_t workspace_bytes() const override { return scratch_.bytes(); }
  std::string name() const override { return name_; }
  bool is_own() const override { return true; }

  void run(const NormOperands& operands, void* workspace) override {
    with_type(spec_.operands, [&]<typename T>(T) {
      auto* const base = static_cast<std::byte*>(workspace);
      auto *const first = reinterpret_cast<float*>(base + first_), *const second = reinterpret_cast<float*>(
                                                                       base + second_);
      switch (spec_.kind) {
        case NormSpec::Kind::gradient:
          return differentiate<T>(operands, first, second);
        case NormSpec::Kind::forward:
          find_moments<T>(operands, first, second);
          [[fallthrough]];
        case NormSpec::Kind::inference:
          apply<T>(operands);
      }
    });
  }

 private:
  template <typename T>
  void find_moments(const NormOperands& at, float* means, float* squares) const {
    const T* const x = static_cast<const T*>(at.x);
    if (division_.lanes > 0) {
      for_each_of_lanes(stream_, division_,
                        LaneMoments<T>{matrix_, division_, x, means, squares, are_aligned(x)});
    } else {
      for_each_part(stream_, matrix_, PartialMoments<T>{matrix_, x, means, squares, division_.rows_each});
    }
    for_each_total(stream_, matrix_.columns, division_.parts,
                   Moments{means, squares, division_.parts, matrix_.columns, matrix_.rows,
                           division_.rows_each, at.mean, at.inverse_std, spec_.epsilon});
  }

  template <typename T>
  void apply(const NormOperands& at) const {
    const bool inference = spec_.kind == NormSpec::Kind::inference;
    const Apply<T> body{Channels(matrix_),
                        static_cast<const T*>(at.x),
                        static_cast<const T*>(at.added),
                        inference ? at.running_mean : at.mean,
                        at.inverse_std,
                        at.weight,
                        at.bias,
                        inference ? at.running_variance : nullptr,
                        static_cast<T*>(at.y),
                        spec_.mask ? at.mask : nullptr,
                        spec_.epsilon,
                        spec_.relu};
    for_each_of_channels<T>(stream_, spec_.elements(), are_aligned(body.x, body.residual, body.y), body);
  }

  template <typename T>
  void differentiate(const NormOperands& at, float* dy, float* dy_h) const {
    using Gate = NormSpec::Gate;
    const Above<T> above{static_cast<const T*>(at.x),
                         static_cast<const T*>(at.dy),
                         static_cast<const T*>(at.activated),
                         static_cast<const T*>(at.added),
                         at.mean,
                         at.inverse_std,
                         at.weight,
                         spec_.gate == Gate::recomputed ? at.bias : nullptr,
                         spec_.gate == Gate::mask ? at.mask : nullptr};
    const std::int64_t parts = parts_of(matrix_);
    for_each_part(stream_, matrix_, PartialGradient<T>{matrix_, above, dy, dy_h, rows_of_part(matrix_)});
    for_each_total(stream_, matrix_.columns, parts,
                   TotalGradient{dy, dy_h, parts, matrix_.columns, at.dweight, at.dbias});
    const NormInputGradient<T> last{Channels(matrix_),
                                    above,
                                    at.dweight,
                                    at.dbias,
                                    static_cast<T*>(at.dx),
                                    static_cast<T*>(at.dy_total),
                                    static_cast<float>(matrix_.rows)};
    const bool aligned =
        are_aligned(above.x, above.dy, above.activated, above.addend, last.dx, last.dy_total);
    for_each_of_channels<T>(stream_, spec_.elements(), aligned, last);
  }

  NormSpec spec_;
  Stream stream_;
  std::string name_;
  Matrix matrix_;
  Division division_;
  Scratch scratch_;
  std::int64_t first_ = 0, second_ = 0;  // sums of the parts, in the workspace
};

// y where the mask agrees with y > 0; another number elsewhere.
template <typename T>
struct Masked {
  const T* y;
  const std::uint8_t* mask;
  T* to;
  ASSAY_HD void operator()(std::int64_t i) const {
    const bool above = widen(y[i]) > 0;
    to[i] = above == is_open(mask, i) ? y[i] : narrow<T>(above ? -1.0F : 1.0F);
  }
};

}  // namespace

std::shared_ptr<Norm> make_own_norm(const NormSpec& spec, Stream stream, std::string name) {
  return std::make_shared<OwnNorm>(spec, stream, std::move(name));
}

void copy_where_mask_is_right(Stream stream, const NormSpec& spec, const void* y, const std::uint8_t* mask,
                              void* to) {
  with_type(spec.operands, [&]<typename T>(T) {
    for_each(stream, spec.elements(), Masked<T>{static_cast<const T*>(y), mask, static_cast<T*>(to)});
  });
}

}  // namespace assay::cuda
