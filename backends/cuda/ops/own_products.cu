#include "backends/cuda/own_products.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "backends/cuda/engine_search.hpp"
#include "backends/cuda/layout.hpp"
#include "backends/cuda/lowering.hpp"

namespace assay::cuda {
namespace {

template <typename In, typename Out>
struct OwnProduct {
  MatmulSpec s;
  const In *a, *b;
  const float* bias;
  const Out* added;  // may be null
  Out* c;
  ASSAY_HD void operator()(std::int64_t i) const {
    const std::int64_t column = i % s.n, row = i / s.n % s.m, which = i / (s.n * s.m);
    const In* left = a + which * s.stride_a + (s.ta ? row : row * s.lda);
    const In* right = b + which * s.stride_b + (s.tb ? column * s.ldb : column);
    const std::int64_t left_step = s.ta ? s.lda : 1, right_step = s.tb ? 1 : s.ldb;
    float sum = 0;
    for (std::int64_t k = 0; k < s.k; ++k) sum += widen(left[k * left_step]) * widen(right[k * right_step]);
    const std::int64_t place = which * s.stride_c + row * s.ldc + column;
    if (added != nullptr) sum += widen(added[place]);
    if (bias != nullptr) sum += bias[column];
    c[place] = narrow<Out>(s.relu ? relu(sum) : sum);
  }
};

class OwnMatmul final : public Matmul {
 public:
  OwnMatmul(const MatmulSpec& spec, Stream stream, std::string name)
      : spec_(spec), stream_(stream), name_(std::move(name)) {}
  std::string name() const override { return name_; }
  void run(const void* a, const void* b, const float* bias, void* c, void* workspace) override {
    run_onto(spec_.accumulate ? c : nullptr, a, b, bias, c, workspace);
  }
  void run_onto(const void* added, const void* a, const void* b, const float* bias, void* c, void*) override {
    with_type(spec_.operands, [&]<typename In>(In) {
      with_type(spec_.result, [&]<typename Out>(Out) {
        for_each(stream_, spec_.batch * spec_.m * spec_.n,
                 OwnProduct<In, Out>{spec_, static_cast<const In*>(a), static_cast<const In*>(b), bias,
                                     static_cast<const Out*>(added), static_cast<Out*>(c)});
      });
    });
  }

 private:
  MatmulSpec spec_;
  Stream stream_;
  std::string name_;
};

struct Geometry {
  ConvolutionSpec s;
  Strides x, weight, y;
  explicit Geometry(const ConvolutionSpec& spec) : s(spec) {
    const Layout layout = s.channels_last ? Layout::channels_last : Layout::plain;
    x = strides_of({s.n, s.c, s.h, s.w}, layout);
    weight = strides_of({s.k, s.c / s.groups, s.r, s.s}, layout);
    y = strides_of({s.n, s.k, s.p, s.q}, layout);
  }
  // Of one group.
  ASSAY_HD std::int64_t channels() const { return s.c / s.groups; }
  ASSAY_HD std::int64_t filters() const { return s.k / s.groups; }
};

template <typename T>
struct Forward {
  Geometry g;
  const T *x, *weight;
  const float* bias;
  T* y;
  ASSAY_HD void operator()(std::int64_t i) const {
    const ConvolutionSpec& s = g.s;
    const std::int64_t q = i % s.q, p = i / s.q % s.p, k = i / (s.q * s.p) % s.k, n = i / (s.q * s.p * s.k);
    const std::int64_t first = k / g.filters() * g.channels();
    float sum = 0;
    for (std::int64_t c = 0; c < g.channels(); ++c) {
      for (std::int64_t r = 0; r < s.r; ++r) {
        const std::int64_t h = p * s.rows.stride + r * s.rows.dilation - s.rows.before;
        if (h < 0 || h >= s.h) continue;
        for (std::int64_t t = 0; t < s.s; ++t) {
          const std::int64_t w = q * s.columns.stride + t * s.columns.dilation - s.columns.before;
          if (w < 0 || w >= s.w) continue;
          sum += widen(x[n * g.x.n + (first + c) * g.x.c + h * g.x.h + w * g.x.w]) *
                 widen(weight[k * g.weight.n + c * g.weight.c + r * g.weight.h + t * g.weight.w]);
        }
      }
    }
    if (bias != nullptr) sum += bias[k];
    y[n * g.y.n + k * g.y.c + p * g.y.h + q * g.y.w] = narrow<T>(s.relu ? relu(sum) : sum);
  }
};

template <typename T>
struct ConvolutionInputGradient {
  Geometry g;
  const T *dy, *weight;
  T* dx;
  ASSAY_HD void operator()(std::int64_t i) const {
    const ConvolutionSpec& s = g.s;
    const std::int64_t w = i % s.w, h = i / s.w % s.h, c = i / (s.w * s.h) % s.c, n = i / (s.w * s.h * s.c);
    const std::int64_t first = c / g.channels() * g.filters();
    float sum = 0;
    for (std::int64_t r = 0; r < s.r; ++r) {
      const std::int64_t down = h + s.rows.before - r * s.rows.dilation;
      if (down < 0 || down % s.rows.stride != 0 || down / s.rows.stride >= s.p) continue;
      for (std::int64_t t = 0; t < s.s; ++t) {
        const std::int64_t across = w + s.columns.before - t * s.columns.dilation;
        if (across < 0 || across % s.columns.stride != 0 || across / s.columns.stride >= s.q) continue;
        const T* above = dy + n * g.y.n + down / s.rows.stride * g.y.h + across / s.columns.stride * g.y.w;
        const T* filter = weight + c % g.channels() * g.weight.c + r * g.weight.h + t * g.weight.w;
        for (std::int64_t k = first; k < first + g.filters(); ++k)
          sum += widen(above[k * g.y.c]) * widen(filter[k * g.weight.n]);
      }
    }
    dx[n * g.x.n + c * g.x.c + h * g.x.h + w * g.x.w] = narrow<T>(sum);
  }
};

template <typename T, typename Result>
struct WeightGradient {
  Geometry g;
  const T *x, *dy;
  Result* dweight;
  ASSAY_TEAM void operator()(const Team& team, std::int64_t i) const {
    const ConvolutionSpec& s = g.s;
    const std::int64_t t = i % s.s, r = i / s.s % s.r, c = i / (s.s * s.r) % g.channels(),
                       k = i / (s.s * s.r * g.channels());
    const std::int64_t of_x = k / g.filters() * g.channels() + c;
    float sum = 0;
    for (std::int64_t j = team.rank(); j < s.n * s.p * s.q; j += team.size()) {
      const std::int64_t q = j % s.q, p = j / s.q % s.p, n = j / (s.q * s.p);
      const std::int64_t h = p * s.rows.stride + r * s.rows.dilation - s.rows.before;
      const std::int64_t w = q * s.columns.stride + t * s.columns.dilation - s.columns.before;
      if (h < 0 || h >= s.h || w < 0 || w >= s.w) continue;
      sum += widen(x[n * g.x.n + of_x * g.x.c + h * g.x.h + w * g.x.w]) *
             widen(dy[n * g.y.n + k * g.y.c + p * g.y.h + q * g.y.w]);
    }
    sum = team.sum(sum);
    if (team.rank() == 0)
      dweight[k * g.weight.n + c * g.weight.c + r * g.weight.h + t * g.weight.w] = narrow<Result>(sum);
  }
};

class OwnConvolution final : public Convolution {
 public:
  OwnConvolution(const ConvolutionSpec& spec, Stream stream, std::string name)
      : geometry_(spec), stream_(stream), name_(std::move(name)) {}
  std::string name() const override { return name_; }
  void run(const void* a, const void* b, const float* bias, void* result, void*) override {
    const ConvolutionSpec& s = geometry_.s;
    with_type(s.operands, [&]<typename T>(T) {
      const auto *first = static_cast<const T*>(a), *second = static_cast<const T*>(b);
      switch (s.kind) {
        case ConvolutionSpec::Kind::forward:
          for_each(stream_, s.n * s.k * s.p * s.q,
                   Forward<T>{geometry_, first, second, bias, static_cast<T*>(result)});
          break;
        case ConvolutionSpec::Kind::input_gradient:
          for_each(stream_, s.n * s.c * s.h * s.w,
                   ConvolutionInputGradient<T>{geometry_, first, second, static_cast<T*>(result)});
          break;
        case ConvolutionSpec::Kind::weight_gradient:
          with_type(s.result, [&]<typename Result>(Result) {
            for_each_row(stream_, s.k * geometry_.channels() * s.r * s.s, s.n * s.p * s.q,
                         WeightGradient<T, Result>{geometry_, first, second, static_cast<Result*>(result)});
          });
          break;
      }
    });
  }

 private:
  Geometry geometry_;
  Stream stream_;
  std::string name_;
};

template <typename T>
struct AddBias {
  T* y;
  const float* bias;  // may be null
  std::int64_t columns, step;
  bool clipped;
  ASSAY_HD void operator()(std::int64_t i) const {
    const float value = widen(y[i]) + (bias == nullptr ? 0.0F : bias[i / step % columns]);
    y[i] = narrow<T>(clipped ? relu(value) : value);
  }
};

struct Widen {
  const Bf16* from;
  float* to;
  ASSAY_HD void operator()(std::int64_t i) const { to[i] = widen(from[i]); }
};

template <typename T>
struct Mask {
  const T* mask;
  T* dx;
  ASSAY_HD void operator()(std::int64_t i) const {
    if (widen(mask[i]) <= 0) dx[i] = narrow<T>(0);
  }
};

constexpr std::int64_t most_partial_sums = 4096;

// The squares of differences, and those of what is expected, of every `parts`-th element.
template <typename T>
struct SquaredDistance {
  const T *result, *expected;
  double* sums;  // (2, parts)
  std::int64_t elements, parts;
  Runs runs;
  ASSAY_HD void operator()(std::int64_t part) const {
    double difference = 0, size = 0;
    for (std::int64_t i = part; i < elements; i += parts) {
      const std::int64_t place = i / runs.part * runs.row + i % runs.part;
      const double right = static_cast<double>(widen(expected[place]));
      const double off = static_cast<double>(widen(result[place])) - right;
      difference += off * off;
      size += right * right;
    }
    sums[part] = difference;
    sums[parts + part] = size;
  }
};

}  // namespace

double relative_distance(Stream stream, Memory& memory, DType dtype, const void* result, const void* expected,
                         std::int64_t elements, Runs runs) {
  const std::int64_t parts = std::min(elements, most_partial_sums);
  if (parts <= 0) return 0;
  std::vector<double> sums(static_cast<std::size_t>(2 * parts));
  const auto bytes = static_cast<std::int64_t>(sums.size() * sizeof(double));
  const Storage partial(memory, bytes, "the comparison of an engine's result");
  with_type(dtype, [&]<typename T>(T) {
    for_each(stream, parts,
             SquaredDistance<T>{static_cast<const T*>(result), static_cast<const T*>(expected),
                                static_cast<double*>(partial.data()), elements, parts, runs});
  });
  memory.fetch(sums.data(), partial.data(), bytes);
  const auto middle = sums.begin() + parts;
  const double difference = std::accumulate(sums.begin(), middle, 0.0);
  const double size = std::accumulate(middle, sums.end(), 0.0);
  return difference == 0 ? 0 : std::sqrt(difference / size);
}

std::unique_ptr<Matmul> make_own_matmul(const MatmulSpec& spec, Stream stream, std::string name) {
  return std::make_unique<OwnMatmul>(spec, stream, std::move(name));
}

std::unique_ptr<Convolution> make_own_convolution(const ConvolutionSpec& spec, Stream stream,
                                                  std::string name) {
  return std::make_unique<OwnConvolution>(spec, stream, std::move(name));
}

void add_bias(Stream stream, DType dtype, void* y, std::int64_t elements, const float* bias,
              std::int64_t columns, std::int64_t step, bool relu) {
  with_type(dtype, [&]<typename T>(T) {
    for_each(stream, elements, AddBias<T>{static_cast<T*>(y), bias, columns, step, relu});
  });
}

void widen_to_f32(Stream stream, const void* from, void* to, std::int64_t elements) {
  for_each(stream, elements, Widen{static_cast<const Bf16*>(from), static_cast<float*>(to)});
}

void apply_mask(Stream stream, DType dtype, const void* mask, void* dx, std::int64_t elements) {
  with_type(dtype, [&]<typename T>(T) {
    for_each(stream, elements, Mask<T>{static_cast<const T*>(mask), static_cast<T*>(dx)});
  });
}

}  // namespace assay::cuda
