// Each function does what NVIDIA's reference documents for the call that it replaces, in double, and rounds once.
#include "backends/cuda/host/host_calls.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "backends/cuda/host/view.hpp"

namespace assay::cuda {
namespace {

double value_of(Activation kind, double x) {
  switch (kind) {
    case Activation::relu:
      return x < 0 ? 0 : x;
    case Activation::sigmoid:
      return 1 / (1 + std::exp(-x));
    case Activation::tanh:
      return std::tanh(x);
    case Activation::softplus:
      return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x)));
    case Activation::softsign:
      break;
  }
  return x / (1 + std::abs(x));
}

// `at`: y, or x of softplus and softsign.
double slope_of(Activation kind, double at) {
  switch (kind) {
    case Activation::relu:
      return at > 0 ? 1 : 0;
    case Activation::sigmoid:
      return at * (1 - at);
    case Activation::tanh:
      return 1 - at * at;
    case Activation::softplus:
      return 1 / (1 + std::exp(-at));
    case Activation::softsign:
      break;
  }
  return 1 / ((1 + std::abs(at)) * (1 + std::abs(at)));
}

// One window of a pool: calls body(number of x) for each element that is in the image.
template <typename Body>
void for_window(const PoolSpec& s, std::int64_t number, const Body& body) {
  const std::int64_t height = s.x.shape[2], width = s.x.shape[3], q = s.y.shape[3], p = s.y.shape[2];
  const std::int64_t top = number / q % p * s.rows.stride - s.rows.padding;
  const std::int64_t left = number % q * s.columns.stride - s.columns.padding;
  const std::int64_t plane = number / (p * q) * height * width;
  for (std::int64_t h = std::max<std::int64_t>(top, 0); h < std::min(top + s.rows.kernel, height); ++h) {
    for (std::int64_t w = std::max<std::int64_t>(left, 0); w < std::min(left + s.columns.kernel, width); ++w)
      body(plane + h * width + w);
  }
}

// The element of x that wins a window: of equal ones the first; a NaN wins and stays.
std::int64_t winner_of(const PoolSpec& s, const In& x, std::int64_t window) {
  std::int64_t best = -1;
  for_window(s, window, [&](std::int64_t i) {
    const double value = x.get(i), largest = best < 0 ? 0 : x.get(best);
    if (best < 0 || value > largest || (std::isnan(value) && !std::isnan(largest))) best = i;
  });
  return best;
}

double divisor_of(const PoolSpec& s, std::int64_t window) {
  if (s.counts_padding) return static_cast<double>(s.rows.kernel * s.columns.kernel);
  double inside = 0;
  for_window(s, window, [&](std::int64_t) { ++inside; });
  return inside;
}

class HostCalls final : public Calls {
 public:
  Call activation(Activation kind, const TensorSpec& spec) override {
    return {"host:activation", [=](Places from, Places to, void*) {
              const In x(spec, from[0]);
              const Out y(spec, to[0]);
              for (std::int64_t i = 0; i < y.count(); ++i) y.set(i, value_of(kind, x.get(i)));
            }};
  }

  Call activation_gradient(Activation kind, const TensorSpec& spec) override {
    return {"host:activation_gradient", [=](Places from, Places to, void*) {
              const In at(spec, from[0]), dy(spec, from[1]);
              const Out dx(spec, to[0]);
              for (std::int64_t i = 0; i < dx.count(); ++i) dx.set(i, dy.get(i) * slope_of(kind, at.get(i)));
            }};
  }

  Call binary(Binary kind, float scale_a, const TensorSpec& a_spec, float scale_b, const TensorSpec& b_spec,
              const TensorSpec& to_spec) override {
    return {"host:op_tensor", [=](Places from, Places to, void*) {
              const In a(a_spec, from[0]), b(b_spec, from[1], a_spec.shape);
              const Out y(to_spec, to[0]);
              for (std::int64_t i = 0; i < y.count(); ++i) {
                const double left = static_cast<double>(scale_a) * a.get(i);
                const double right = static_cast<double>(scale_b) * b.get(i);
                const bool first = left > right || std::isnan(left);
                y.set(i, kind == Binary::add        ? left + right
                         : kind == Binary::multiply ? left * right
                         : first                    ? left
                                                    : right);
              }
            }};
  }

  Call repeat(float scale, const TensorSpec& spec, const TensorSpec& to_spec) override {
    return {"host:add_tensor", [=](Places from, Places to, void*) {
              const In x(spec, from[0], to_spec.shape);
              const Out y(to_spec, to[0]);
              for (std::int64_t i = 0; i < y.count(); ++i) y.set(i, static_cast<double>(scale) * x.get(i));
            }};
  }

  Call reduce(Reduction kind, const TensorSpec& spec, const TensorSpec& to_spec) override {
    return {"host:reduce_tensor", [=](Places from, Places to, void*) {
              const In x(spec, from[0]);
              const Out y(to_spec, to[0]);
              // Where each element of x belongs: a view of the numbers of y, repeated over x.
              std::vector<float> numbers(static_cast<std::size_t>(y.count()));
              for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i);
              const In place(packed(DType::f32, to_spec.shape), numbers.data(), spec.shape);
              const double neutral =
                  kind == Reduction::maximum ? -std::numeric_limits<double>::infinity() : 0;
              std::vector<double> results(numbers.size(), neutral);
              for (std::int64_t i = 0; i < x.count(); ++i) {
                double& result = results[static_cast<std::size_t>(place.get(i))];
                result = kind == Reduction::maximum ? std::max(result, x.get(i)) : result + x.get(i);
              }
              const double share = static_cast<double>(y.count()) / static_cast<double>(x.count());
              for (std::int64_t r = 0; r < y.count(); ++r)
                y.set(r, results[static_cast<std::size_t>(r)] * (kind == Reduction::mean ? share : 1));
            }};
  }

  Call fill(float value, const TensorSpec& spec) override {
    return {"host:set_tensor", [=](Places, Places to, void*) {
              const Out y(spec, to[0]);
              for (std::int64_t i = 0; i < y.count(); ++i) y.set(i, static_cast<double>(value));
            }};
  }

  Call transform(const TensorSpec& spec, const TensorSpec& to_spec) override {
    return {"host:transform_tensor", [=](Places from, Places to, void*) {
              const In x(spec, from[0]);
              const Out y(to_spec, to[0]);
              for (std::int64_t i = 0; i < y.count(); ++i) y.set(i, x.get(i));
            }};
  }

  Call copy(const RowCopy& rows) override {
    return {"host:copy", [=](Places from, Places to, void*) {
              const auto* const source = static_cast<const std::byte*>(from[0]);
              auto* const target = static_cast<std::byte*>(to[0]);
              for (std::int64_t r = 0; r < rows.rows; ++r)
                std::memcpy(target + r * rows.to_pitch, source + r * rows.from_pitch,
                            static_cast<std::size_t>(rows.bytes));
            }};
  }

  Call pool(const PoolSpec& s) override {
    return {"host:pooling", [=](Places from, Places to, void*) {
              const In x(s.x, from[0]);
              const Out y(s.y, to[0]);
              for (std::int64_t i = 0; i < y.count(); ++i) {
                double sum = 0;
                if (!s.maximum) for_window(s, i, [&](std::int64_t at) { sum += x.get(at); });
                y.set(i, s.maximum ? x.get(winner_of(s, x, i)) : sum / divisor_of(s, i));
              }
            }};
  }

  Call pool_gradient(const PoolSpec& s) override {
    return {"host:pooling_gradient", [=](Places from, Places to, void*) {
              const In x(s.x, from[0]), dy(s.y, from[2]);
              const Out dx(s.x, to[0]);
              std::vector<double> sums(static_cast<std::size_t>(dx.count()), 0.0);
              for (std::int64_t i = 0; i < dy.count(); ++i) {
                const double each = dy.get(i) / divisor_of(s, i);
                if (s.maximum) sums[static_cast<std::size_t>(winner_of(s, x, i))] += dy.get(i);
                if (!s.maximum)
                  for_window(s, i, [&](std::int64_t at) { sums[static_cast<std::size_t>(at)] += each; });
              }
              for (std::int64_t i = 0; i < dx.count(); ++i) dx.set(i, sums[static_cast<std::size_t>(i)]);
            }};
  }

  Call softmax(const TensorSpec& spec) override {
    return {"host:softmax", [=](Places from, Places to, void*) {
              const In x(spec, from[0]);
              const Out y(spec, to[0]);
              const std::int64_t columns = spec.shape[1];
              for (std::int64_t first = 0; first < x.count(); first += columns) {
                double largest = x.get(first), sum = 0;
                for (std::int64_t i = first; i < first + columns; ++i) largest = std::max(largest, x.get(i));
                for (std::int64_t i = first; i < first + columns; ++i) sum += std::exp(x.get(i) - largest);
                for (std::int64_t i = first; i < first + columns; ++i)
                  y.set(i, std::exp(x.get(i) - largest) / sum);
              }
            }};
  }

  Call softmax_gradient(const TensorSpec& spec) override {
    return {"host:softmax_gradient", [=](Places from, Places to, void*) {
              const In y(spec, from[0]), dy(spec, from[1]);
              const Out dx(spec, to[0]);
              const std::int64_t columns = spec.shape[1];
              for (std::int64_t first = 0; first < y.count(); first += columns) {
                double sum = 0;
                for (std::int64_t i = first; i < first + columns; ++i) sum += y.get(i) * dy.get(i);
                for (std::int64_t i = first; i < first + columns; ++i)
                  dx.set(i, y.get(i) * (dy.get(i) - sum));
              }
            }};
  }

  Call norm_training(const TensorSpec& spec, double epsilon) override {
    return {"host:batch_norm", [=](Places from, Places to, void*) {
              const In x(spec, from[0]);
              const auto channels = static_cast<std::size_t>(spec.shape[1]);
              const double pixels = static_cast<double>(x.count()) / static_cast<double>(channels);
              std::vector<double> mean(channels, 0.0), variance(channels, 0.0);
              for (std::int64_t i = 0; i < x.count(); ++i) mean[channel(spec, i)] += x.get(i) / pixels;
              for (std::int64_t i = 0; i < x.count(); ++i) {
                const double away = x.get(i) - mean[channel(spec, i)];
                variance[channel(spec, i)] += away * away / pixels;
              }
              normalise(spec, from, mean, variance, epsilon, to[0]);
              for (std::size_t c = 0; c < channels; ++c) {
                const auto result = [&](std::size_t o) -> float& { return static_cast<float*>(to[o])[c]; };
                result(1) = result(3) = static_cast<float>(mean[c]);
                result(2) = static_cast<float>(1 / std::sqrt(variance[c] + epsilon));
                result(4) = static_cast<float>(variance[c] * (pixels > 1 ? pixels / (pixels - 1) : 1));
              }
            }};
  }

  Call norm_inference(const TensorSpec& spec, double epsilon) override {
    return {"host:batch_norm", [=](Places from, Places to, void*) {
              const auto* const mean = static_cast<const float*>(from[3]);
              const auto* const variance = static_cast<const float*>(from[4]);
              normalise(spec, from, {mean, mean + spec.shape[1]}, {variance, variance + spec.shape[1]},
                        epsilon, to[0]);
            }};
  }

  Call norm_gradient(const TensorSpec& spec, double) override {
    return {"host:batch_norm_gradient", [=](Places from, Places to, void*) {
              const In x(spec, from[0]), dy(spec, from[4]);
              const Out dx(spec, to[0]);
              const auto operand = [&](std::size_t i, std::size_t c) {
                return static_cast<double>(static_cast<const float*>(from[i])[c]);
              };
              const auto h = [&](std::int64_t i) {
                const std::size_t c = channel(spec, i);
                return (x.get(i) - operand(2, c)) * operand(3, c);
              };
              const auto channels = static_cast<std::size_t>(spec.shape[1]);
              const double pixels = static_cast<double>(x.count()) / static_cast<double>(channels);
              std::vector<double> sum(channels, 0.0), weighted(channels, 0.0);
              for (std::int64_t i = 0; i < x.count(); ++i) {
                sum[channel(spec, i)] += dy.get(i);
                weighted[channel(spec, i)] += dy.get(i) * h(i);
              }
              for (std::int64_t i = 0; i < x.count(); ++i) {
                const std::size_t c = channel(spec, i);
                dx.set(i,
                       operand(1, c) * operand(3, c) * (dy.get(i) - (sum[c] + h(i) * weighted[c]) / pixels));
              }
              for (std::size_t c = 0; c < channels; ++c) {
                static_cast<float*>(to[1])[c] = static_cast<float>(weighted[c]);
                static_cast<float*>(to[2])[c] = static_cast<float>(sum[c]);
              }
            }};
  }

 private:
  // Of element `number` of an image.
  static std::size_t channel(const TensorSpec& x, std::int64_t number) {
    return static_cast<std::size_t>(number / (x.shape[2] * x.shape[3]) % x.shape[1]);
  }

  // from: x, weight, bias.
  static void normalise(const TensorSpec& spec, Places from, const std::vector<double>& mean,
                        const std::vector<double>& variance, double epsilon, void* to) {
    const In x(spec, from[0]);
    const Out y(spec, to);
    const auto *const weight = static_cast<const float*>(from[1]), *const bias =
                                                                       static_cast<const float*>(from[2]);
    for (std::int64_t i = 0; i < x.count(); ++i) {
      const std::size_t c = channel(spec, i);
      const double h = (x.get(i) - mean[c]) / std::sqrt(variance[c] + epsilon);
      y.set(i, h * static_cast<double>(weight[c]) + static_cast<double>(bias[c]));
    }
  }
};

}  // namespace

std::unique_ptr<Calls> make_host_calls() { return std::make_unique<HostCalls>(); }

}  // namespace assay::cuda
