// What cuDNN and the CUDA runtime offer next to matrix products, convolutions and the LSTM, without their
// types: each a call that is prepared once and enqueued in every step.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "backends/cuda/layout.hpp"
#include "harness/core/tensor.hpp"

namespace assay::cuda {

// The description of a tensor for a library; shape and strides have one length.
struct TensorSpec {
  DType dtype = DType::f32;
  Shape shape, strides;  // strides in elements
};

// Row-major.
TensorSpec packed(DType dtype, const Shape& shape);
// An image or a filter (four dimensions) in `layout`.
TensorSpec image(const TensorType& type, Layout layout);
// The elements in the order of memory, for what goes element by element: rows of the last dimension, of an
// image its four dimensions.
TensorSpec dense(const TensorType& type);
// One value for each channel of an image, or for each column of a matrix.
TensorSpec per_channel(std::int64_t channels);

using Places = std::span<void* const>;

struct Call {
  std::string name;                                                  // "cudnn:softmax"
  std::function<void(Places from, Places to, void* workspace)> run;  // enqueues it
  std::int64_t workspace_bytes = 0;
};

enum class Activation : std::uint8_t { relu, sigmoid, tanh, softplus, softsign };
enum class Binary : std::uint8_t { add, multiply, maximum };
enum class Reduction : std::uint8_t { sum, mean, maximum };

// A pool along one dimension: opposite sides have the same padding.
struct PoolAxis {
  std::int64_t kernel = 1, stride = 1, padding = 0;
};

struct PoolSpec {
  bool maximum = false;
  bool counts_padding = true;  // in the divisor of an average
  PoolAxis rows, columns;
  TensorSpec x, y;  // images
};

// Rows of as many bytes, `from_pitch` and `to_pitch` bytes behind each other.
struct RowCopy {
  std::int64_t rows = 0, bytes = 0, from_pitch = 0, to_pitch = 0;
};

// Each function names what `from` and `to` of its call are. Preparing and enqueuing throw Unsupported for
// what the library does not have.
class Calls {
 public:
  virtual ~Calls() = default;

  // x -> y
  virtual Call activation(Activation kind, const TensorSpec& x) = 0;
  // y (of softplus and softsign: x), dy -> dx
  virtual Call activation_gradient(Activation kind, const TensorSpec& x) = 0;
  // a, b -> kind(scale_a a, scale_b b). b has the dimensions of a or 1, and its type. `to` may be a.
  virtual Call binary(Binary kind, float scale_a, const TensorSpec& a, float scale_b, const TensorSpec& b,
                      const TensorSpec& to) = 0;
  // x -> scale x, repeated along the dimensions in which x has 1
  virtual Call repeat(float scale, const TensorSpec& x, const TensorSpec& to) = 0;
  // x -> its reduction along the dimensions in which `to` has 1. f32
  virtual Call reduce(Reduction kind, const TensorSpec& x, const TensorSpec& to) = 0;
  // -> value
  virtual Call fill(float value, const TensorSpec& to) = 0;
  // x -> the same elements in other strides
  virtual Call transform(const TensorSpec& x, const TensorSpec& to) = 0;
  // x -> its rows
  virtual Call copy(const RowCopy& rows) = 0;

  // x -> y
  virtual Call pool(const PoolSpec& spec) = 0;
  // x, y, dy -> dx; of an average only dy is read.
  virtual Call pool_gradient(const PoolSpec& spec) = 0;

  // x -> y, over the second of two dimensions
  virtual Call softmax(const TensorSpec& x) = 0;
  // y, dy -> dx
  virtual Call softmax_gradient(const TensorSpec& x) = 0;

  // Batch normalisation of images x; all but images are f32, one for each channel.

  // x, weight, bias -> y, mean, 1 / sqrt(variance + epsilon), mean again, unbiased variance (M / (M - 1) of
  // the biased one, M the pixels of a channel)
  virtual Call norm_training(const TensorSpec& x, double epsilon) = 0;
  // x, weight, bias, mean, variance -> y
  virtual Call norm_inference(const TensorSpec& x, double epsilon) = 0;
  // x, weight, mean, 1 / sqrt(variance + epsilon), dy -> dx, dweight, dbias
  virtual Call norm_gradient(const TensorSpec& x, double epsilon) = 0;
};

}  // namespace assay::cuda
