// cuDNN's functions on tensors, in double, rounded once.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "tests/stand_in/dnn.hpp"

using namespace assay::stand_in;

struct cudnnActivationStruct {
  cudnnActivationMode_t mode = CUDNN_ACTIVATION_RELU;
};
struct cudnnOpTensorStruct {
  cudnnOpTensorOp_t op = CUDNN_OP_TENSOR_ADD;
};
struct cudnnReduceTensorStruct {
  cudnnReduceTensorOp_t op = CUDNN_REDUCE_TENSOR_ADD;
};
struct cudnnPoolingStruct {
  cudnnPoolingMode_t mode = CUDNN_POOLING_MAX;
  std::int64_t height = 1, width = 1, top = 0, left = 0, down = 1, right = 1;

  bool counts_padding() const { return mode == CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING; }
  bool is_average() const { return counts_padding() || mode == CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING; }
  double elements() const { return static_cast<double>(height * width); }
};

namespace {

// A tensor at an address.
struct Operand {
  Shaped shaped;
  const void* base = nullptr;
  double get(std::int64_t element) const { return load(base, shaped.number, shaped.offset(element)); }
  double get_in(const std::vector<std::int64_t>& shape, std::int64_t element) const {
    return load(base, shaped.number, shaped.offset_in(shape, element));
  }
};
// y = alpha value + beta y. Without beta the old y is not read.
struct Result {
  Shaped shaped;
  void* base = nullptr;
  double alpha = 1, beta = 0;
  void set(std::int64_t element, double value) const {
    const std::int64_t at = shaped.offset(element);
    const double old = beta == 0 ? 0 : beta * load(base, shaped.number, at);
    store(base, shaped.number, at, alpha * value + old);
  }
};

// Factors are in the host's memory, and are read by the call.
double factor(const void* pointer) { return static_cast<double>(*static_cast<const float*>(pointer)); }

Operand in(cudnnTensorDescriptor_t tensor, const void* base) { return {tensor->shaped, base}; }
Result out(cudnnTensorDescriptor_t tensor, void* base, const void* alpha, const void* beta) {
  return {tensor->shaped, base, factor(alpha), factor(beta)};
}
bool is_there(const Operand& operand, const char* user) {
  return check_range(operand.base, operand.shaped.bytes(), user);
}
bool is_there(const Result& result, const char* user) {
  return check_range(result.base, result.shaped.bytes(), user);
}
bool are_there(const char* user, const auto&... tensors) { return (is_there(tensors, user) & ...); }

cudnnStatus_t run(cudnnHandle_t handle, Work work) {
  enqueue(handle->stream, std::move(work));
  return CUDNN_STATUS_SUCCESS;
}

bool same_shape(const Shaped& a, const Shaped& b) { return a.dims == b.dims; }
cudnnStatus_t refuse_shapes() {
  return refuse(CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH, "the shapes do not fit");
}

double activated(cudnnActivationMode_t mode, double x) {
  if (mode == CUDNN_ACTIVATION_RELU) return x < 0 ? 0 : x;
  return mode == CUDNN_ACTIVATION_TANH ? std::tanh(x) : 1 / (1 + std::exp(-x));
}
// By y.
double slope(cudnnActivationMode_t mode, double y) {
  if (mode == CUDNN_ACTIVATION_RELU) return y > 0 ? 1 : 0;
  return mode == CUDNN_ACTIVATION_TANH ? 1 - y * y : y * (1 - y);
}

}  // namespace

// Activations

cudnnStatus_t cudnnCreateActivationDescriptor(cudnnActivationDescriptor_t* how) {
  return create_description(how);
}
cudnnStatus_t cudnnDestroyActivationDescriptor(cudnnActivationDescriptor_t how) {
  return destroy_description(how);
}
cudnnStatus_t cudnnSetActivationDescriptor(cudnnActivationDescriptor_t how, cudnnActivationMode_t mode,
                                           cudnnNanPropagation_t, double) {
  if (mode != CUDNN_ACTIVATION_RELU && mode != CUDNN_ACTIVATION_SIGMOID && mode != CUDNN_ACTIVATION_TANH)
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, "an activation that the stand-in does not have");
  how->mode = mode;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnActivationForward(cudnnHandle_t handle, cudnnActivationDescriptor_t how, const void* alpha,
                                     const cudnnTensorDescriptor_t x_tensor, const void* x, const void* beta,
                                     const cudnnTensorDescriptor_t y_tensor, void* y) {
  if (!same_shape(x_tensor->shaped, y_tensor->shaped)) return refuse_shapes();
  return run(handle, [mode = how->mode, from = in(x_tensor, x), to = out(y_tensor, y, alpha, beta)] {
    if (!are_there("cudnnActivationForward", from, to)) return;
    for (std::int64_t i = 0; i < to.shaped.count(); ++i) to.set(i, activated(mode, from.get(i)));
  });
}

cudnnStatus_t cudnnActivationBackward(cudnnHandle_t handle, cudnnActivationDescriptor_t how,
                                      const void* alpha, const cudnnTensorDescriptor_t y_tensor,
                                      const void* y, const cudnnTensorDescriptor_t dy_tensor, const void* dy,
                                      const cudnnTensorDescriptor_t x_tensor, const void* x, const void* beta,
                                      const cudnnTensorDescriptor_t dx_tensor, void* dx) {
  if (!same_shape(dy_tensor->shaped, dx_tensor->shaped) || !same_shape(y_tensor->shaped, dx_tensor->shaped))
    return refuse_shapes();
  return run(handle, [mode = how->mode, result = in(y_tensor, y), from = in(dy_tensor, dy),
                      operand = in(x_tensor, x), to = out(dx_tensor, dx, alpha, beta)] {
    if (!are_there("cudnnActivationBackward", result, from, operand, to)) return;
    for (std::int64_t i = 0; i < to.shaped.count(); ++i) to.set(i, from.get(i) * slope(mode, result.get(i)));
  });
}

// Element by element

cudnnStatus_t cudnnCreateOpTensorDescriptor(cudnnOpTensorDescriptor_t* how) {
  return create_description(how);
}
cudnnStatus_t cudnnDestroyOpTensorDescriptor(cudnnOpTensorDescriptor_t how) {
  return destroy_description(how);
}
cudnnStatus_t cudnnSetOpTensorDescriptor(cudnnOpTensorDescriptor_t how, cudnnOpTensorOp_t op, cudnnDataType_t,
                                         cudnnNanPropagation_t) {
  if (op != CUDNN_OP_TENSOR_ADD && op != CUDNN_OP_TENSOR_MUL && op != CUDNN_OP_TENSOR_MAX)
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, "an operation that the stand-in does not have");
  how->op = op;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnOpTensor(cudnnHandle_t handle, const cudnnOpTensorDescriptor_t how, const void* alpha1,
                            const cudnnTensorDescriptor_t a_tensor, const void* a, const void* alpha2,
                            const cudnnTensorDescriptor_t b_tensor, const void* b, const void* beta,
                            const cudnnTensorDescriptor_t c_tensor, void* c) {
  if (!same_shape(a_tensor->shaped, c_tensor->shaped) || !b_tensor->shaped.fits(a_tensor->shaped.dims))
    return refuse_shapes();
  const float one = 1;
  return run(handle, [op = how->op, first = factor(alpha1), second = factor(alpha2), left = in(a_tensor, a),
                      right = in(b_tensor, b), to = out(c_tensor, c, &one, beta)] {
    if (!are_there("cudnnOpTensor", left, right, to)) return;
    for (std::int64_t i = 0; i < to.shaped.count(); ++i) {
      const double x = first * left.get(i), y = second * right.get_in(left.shaped.dims, i);
      to.set(i, op == CUDNN_OP_TENSOR_ADD   ? x + y
                : op == CUDNN_OP_TENSOR_MUL ? x * y
                : x > y || std::isnan(x)    ? x
                                            : y);
    }
  });
}

cudnnStatus_t cudnnAddTensor(cudnnHandle_t handle, const void* alpha, const cudnnTensorDescriptor_t a_tensor,
                             const void* a, const void* beta, const cudnnTensorDescriptor_t c_tensor,
                             void* c) {
  if (!a_tensor->shaped.fits(c_tensor->shaped.dims)) return refuse_shapes();
  return run(handle, [from = in(a_tensor, a), to = out(c_tensor, c, alpha, beta)] {
    if (!are_there("cudnnAddTensor", from, to)) return;
    for (std::int64_t i = 0; i < to.shaped.count(); ++i) to.set(i, from.get_in(to.shaped.dims, i));
  });
}

cudnnStatus_t cudnnTransformTensor(cudnnHandle_t handle, const void* alpha,
                                   const cudnnTensorDescriptor_t x_tensor, const void* x, const void* beta,
                                   const cudnnTensorDescriptor_t y_tensor, void* y) {
  if (!same_shape(x_tensor->shaped, y_tensor->shaped)) return refuse_shapes();
  return run(handle, [from = in(x_tensor, x), to = out(y_tensor, y, alpha, beta)] {
    if (!are_there("cudnnTransformTensor", from, to)) return;
    for (std::int64_t i = 0; i < to.shaped.count(); ++i) to.set(i, from.get(i));
  });
}

cudnnStatus_t cudnnSetTensor(cudnnHandle_t handle, const cudnnTensorDescriptor_t y_tensor, void* y,
                             const void* value) {
  const float one = 1, zero = 0;
  return run(handle, [number = load(value, y_tensor->shaped.number, 0), to = out(y_tensor, y, &one, &zero)] {
    if (!are_there("cudnnSetTensor", to)) return;
    for (std::int64_t i = 0; i < to.shaped.count(); ++i) to.set(i, number);
  });
}

// Reductions

cudnnStatus_t cudnnCreateReduceTensorDescriptor(cudnnReduceTensorDescriptor_t* how) {
  return create_description(how);
}
cudnnStatus_t cudnnDestroyReduceTensorDescriptor(cudnnReduceTensorDescriptor_t how) {
  return destroy_description(how);
}
cudnnStatus_t cudnnSetReduceTensorDescriptor(cudnnReduceTensorDescriptor_t how, cudnnReduceTensorOp_t op,
                                             cudnnDataType_t, cudnnNanPropagation_t,
                                             cudnnReduceTensorIndices_t, cudnnIndicesType_t) {
  if (op != CUDNN_REDUCE_TENSOR_ADD && op != CUDNN_REDUCE_TENSOR_AVG && op != CUDNN_REDUCE_TENSOR_MAX)
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, "a reduction that the stand-in does not have");
  how->op = op;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetReductionWorkspaceSize(cudnnHandle_t, const cudnnReduceTensorDescriptor_t,
                                             const cudnnTensorDescriptor_t a, const cudnnTensorDescriptor_t c,
                                             std::size_t* bytes) {
  if (!c->shaped.fits(a->shaped.dims)) return refuse_shapes();
  *bytes = static_cast<std::size_t>(c->shaped.count() * 4 + 50);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnReduceTensor(cudnnHandle_t handle, const cudnnReduceTensorDescriptor_t how, void*,
                                std::size_t, void* workspace, std::size_t bytes, const void* alpha,
                                const cudnnTensorDescriptor_t a_tensor, const void* a, const void* beta,
                                const cudnnTensorDescriptor_t c_tensor, void* c) {
  std::size_t needed = 0;
  if (const cudnnStatus_t status = cudnnGetReductionWorkspaceSize(handle, how, a_tensor, c_tensor, &needed);
      status != CUDNN_STATUS_SUCCESS)
    return status;
  if (bytes < needed) return refuse(CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT, "the workspace is too small");
  if (!is_aligned(workspace, 256)) return refuse(CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER, "the workspace");
  return run(handle, [=, op = how->op, from = in(a_tensor, a), to = out(c_tensor, c, alpha, beta)] {
    if (!are_there("cudnnReduceTensor", from, to)) return;
    spoil_workspace(workspace, static_cast<std::int64_t>(bytes), "cudnnReduceTensor");
    // Where each element goes: by its place in c.
    const std::int64_t count = from.shaped.count(), results = to.shaped.count();
    std::map<std::int64_t, std::int64_t> element_at;
    for (std::int64_t r = 0; r < results; ++r) element_at[to.shaped.offset(r)] = r;
    const bool is_max = op == CUDNN_REDUCE_TENSOR_MAX;
    std::vector<double> sums(static_cast<std::size_t>(results),
                             is_max ? -std::numeric_limits<double>::infinity() : 0);
    for (std::int64_t i = 0; i < count; ++i) {
      double& sum = sums[static_cast<std::size_t>(element_at.at(to.shaped.offset_in(from.shaped.dims, i)))];
      sum = is_max ? std::max(sum, from.get(i)) : sum + from.get(i);
    }
    const double share = static_cast<double>(results) / static_cast<double>(count);
    for (std::int64_t r = 0; r < results; ++r)
      to.set(r, sums[static_cast<std::size_t>(r)] * (op == CUDNN_REDUCE_TENSOR_AVG ? share : 1));
  });
}

// Pools

cudnnStatus_t cudnnCreatePoolingDescriptor(cudnnPoolingDescriptor_t* how) { return create_description(how); }
cudnnStatus_t cudnnDestroyPoolingDescriptor(cudnnPoolingDescriptor_t how) { return destroy_description(how); }
cudnnStatus_t cudnnSetPooling2dDescriptor(cudnnPoolingDescriptor_t how, cudnnPoolingMode_t mode,
                                          cudnnNanPropagation_t, int height, int width, int top, int left,
                                          int down, int right) {
  *how = {mode, height, width, top, left, down, right};
  return CUDNN_STATUS_SUCCESS;
}

namespace {

// Calls body(element of x) for each element of a window that is in the image.
template <typename Body>
void for_window(const cudnnPoolingStruct& pool, const Shaped& x, const Shaped& y, std::int64_t window,
                const Body& body) {
  const std::int64_t height = x.dims[2], width = x.dims[3], rows = y.dims[2], columns = y.dims[3];
  const std::int64_t top = window / columns % rows * pool.down - pool.top;
  const std::int64_t left = window % columns * pool.right - pool.left;
  const std::int64_t plane = window / (rows * columns) * height * width;
  for (std::int64_t h = std::max<std::int64_t>(top, 0); h < std::min(top + pool.height, height); ++h) {
    for (std::int64_t w = std::max<std::int64_t>(left, 0); w < std::min(left + pool.width, width); ++w)
      body(plane + h * width + w);
  }
}

// The divisor of an average.
double divisor(const cudnnPoolingStruct& pool, const Shaped& x, const Shaped& y, std::int64_t window) {
  if (pool.counts_padding()) return pool.elements();
  double inside = 0;
  for_window(pool, x, y, window, [&](std::int64_t) { ++inside; });
  return inside;
}

// Of equal ones the first; a NaN wins and stays.
std::int64_t winner(const cudnnPoolingStruct& pool, const Operand& x, const Shaped& y, std::int64_t window) {
  std::int64_t best = -1;
  for_window(pool, x.shaped, y, window, [&](std::int64_t i) {
    const double value = x.get(i), largest = best < 0 ? 0 : x.get(best);
    if (best < 0 || value > largest || (std::isnan(value) && !std::isnan(largest))) best = i;
  });
  return best;
}

bool are_images(const Shaped& x, const Shaped& y) {
  return x.dims.size() == 4 && y.dims.size() == 4 && x.dims[0] == y.dims[0] && x.dims[1] == y.dims[1];
}

}  // namespace

cudnnStatus_t cudnnPoolingForward(cudnnHandle_t handle, const cudnnPoolingDescriptor_t how, const void* alpha,
                                  const cudnnTensorDescriptor_t x_tensor, const void* x, const void* beta,
                                  const cudnnTensorDescriptor_t y_tensor, void* y) {
  if (!are_images(x_tensor->shaped, y_tensor->shaped)) return refuse_shapes();
  return run(handle, [pool = *how, from = in(x_tensor, x), to = out(y_tensor, y, alpha, beta)] {
    if (!are_there("cudnnPoolingForward", from, to)) return;
    for (std::int64_t i = 0; i < to.shaped.count(); ++i) {
      double sum = 0;
      if (pool.is_average())
        for_window(pool, from.shaped, to.shaped, i, [&](std::int64_t at) { sum += from.get(at); });
      to.set(i, pool.is_average() ? sum / divisor(pool, from.shaped, to.shaped, i)
                                  : from.get(winner(pool, from, to.shaped, i)));
    }
  });
}

cudnnStatus_t cudnnPoolingBackward(cudnnHandle_t handle, const cudnnPoolingDescriptor_t how,
                                   const void* alpha, const cudnnTensorDescriptor_t y_tensor, const void* y,
                                   const cudnnTensorDescriptor_t dy_tensor, const void* dy,
                                   const cudnnTensorDescriptor_t x_tensor, const void* x, const void* beta,
                                   const cudnnTensorDescriptor_t dx_tensor, void* dx) {
  if (!are_images(x_tensor->shaped, dy_tensor->shaped) || !same_shape(x_tensor->shaped, dx_tensor->shaped) ||
      !same_shape(y_tensor->shaped, dy_tensor->shaped))
    return refuse_shapes();
  return run(handle, [pool = *how, result = in(y_tensor, y), from = in(dy_tensor, dy),
                      image = in(x_tensor, x), to = out(dx_tensor, dx, alpha, beta)] {
    if (!are_there("cudnnPoolingBackward", from, to)) return;
    if (!pool.is_average() && !are_there("cudnnPoolingBackward", result, image)) return;
    std::vector<double> sums(static_cast<std::size_t>(to.shaped.count()), 0.0);
    for (std::int64_t i = 0; i < from.shaped.count(); ++i) {
      if (!pool.is_average()) {
        sums[static_cast<std::size_t>(winner(pool, image, from.shaped, i))] += from.get(i);
        continue;
      }
      const double each = from.get(i) / divisor(pool, to.shaped, from.shaped, i);
      for_window(pool, to.shaped, from.shaped, i,
                 [&](std::int64_t at) { sums[static_cast<std::size_t>(at)] += each; });
    }
    for (std::int64_t i = 0; i < to.shaped.count(); ++i) to.set(i, sums[static_cast<std::size_t>(i)]);
  });
}

// Softmax over the second dimension

namespace {

// Calls body(numbers of the elements of a row) for each row.
template <typename Body>
void for_rows(const Shaped& shaped, const Body& body) {
  std::int64_t inner = 1;
  for (std::size_t d = 2; d < shaped.dims.size(); ++d) inner *= shaped.dims[d];
  const std::int64_t columns = shaped.dims[1];
  std::vector<std::int64_t> row(static_cast<std::size_t>(columns));
  for (std::int64_t outer = 0; outer < shaped.dims[0]; ++outer) {
    for (std::int64_t i = 0; i < inner; ++i) {
      for (std::int64_t c = 0; c < columns; ++c)
        row[static_cast<std::size_t>(c)] = (outer * columns + c) * inner + i;
      body(row);
    }
  }
}

}  // namespace

cudnnStatus_t cudnnSoftmaxForward(cudnnHandle_t handle, cudnnSoftmaxAlgorithm_t algorithm,
                                  cudnnSoftmaxMode_t mode, const void* alpha,
                                  const cudnnTensorDescriptor_t x_tensor, const void* x, const void* beta,
                                  const cudnnTensorDescriptor_t y_tensor, void* y) {
  if (algorithm != CUDNN_SOFTMAX_ACCURATE || mode != CUDNN_SOFTMAX_MODE_CHANNEL)
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, "a softmax that the stand-in does not have");
  if (!same_shape(x_tensor->shaped, y_tensor->shaped)) return refuse_shapes();
  return run(handle, [from = in(x_tensor, x), to = out(y_tensor, y, alpha, beta)] {
    if (!are_there("cudnnSoftmaxForward", from, to)) return;
    for_rows(to.shaped, [&](const std::vector<std::int64_t>& row) {
      double largest = from.get(row.front()), sum = 0;
      for (const std::int64_t i : row) largest = std::max(largest, from.get(i));
      std::vector<double> powers;
      for (const std::int64_t i : row) sum += powers.emplace_back(std::exp(from.get(i) - largest));
      for (std::size_t c = 0; c < row.size(); ++c) to.set(row[c], powers[c] / sum);
    });
  });
}

cudnnStatus_t cudnnSoftmaxBackward(cudnnHandle_t handle, cudnnSoftmaxAlgorithm_t algorithm,
                                   cudnnSoftmaxMode_t mode, const void* alpha,
                                   const cudnnTensorDescriptor_t y_tensor, const void* y,
                                   const cudnnTensorDescriptor_t dy_tensor, const void* dy, const void* beta,
                                   const cudnnTensorDescriptor_t dx_tensor, void* dx) {
  if (algorithm != CUDNN_SOFTMAX_ACCURATE || mode != CUDNN_SOFTMAX_MODE_CHANNEL)
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, "a softmax that the stand-in does not have");
  if (!same_shape(y_tensor->shaped, dy_tensor->shaped) || !same_shape(y_tensor->shaped, dx_tensor->shaped))
    return refuse_shapes();
  return run(handle,
             [result = in(y_tensor, y), from = in(dy_tensor, dy), to = out(dx_tensor, dx, alpha, beta)] {
               if (!are_there("cudnnSoftmaxBackward", result, from, to)) return;
               for_rows(to.shaped, [&](const std::vector<std::int64_t>& row) {
                 double sum = 0;
                 for (const std::int64_t i : row) sum += result.get(i) * from.get(i);
                 std::vector<double> values;
                 for (const std::int64_t i : row) values.push_back(result.get(i) * (from.get(i) - sum));
                 for (std::size_t c = 0; c < row.size(); ++c) to.set(row[c], values[c]);
               });
             });
}

// Batch normalisation

cudnnStatus_t cudnnDeriveBNTensorDescriptor(cudnnTensorDescriptor_t derived, const cudnnTensorDescriptor_t x,
                                            cudnnBatchNormMode_t mode) {
  if (mode != CUDNN_BATCHNORM_SPATIAL) return refuse(CUDNN_STATUS_NOT_SUPPORTED, "only the spatial mode");
  derived->shaped = {Number::f32, {1, x->shaped.dims[1], 1, 1}, {x->shaped.dims[1], 1, 1, 1}};
  return CUDNN_STATUS_SUCCESS;
}

namespace {

std::size_t channel(const Shaped& x, std::int64_t element) {
  return static_cast<std::size_t>(element / (x.dims[2] * x.dims[3]) % x.dims[1]);
}
double at(const void* channels, std::size_t c) {
  return static_cast<double>(static_cast<const float*>(channels)[c]);
}
void put(void* channels, std::size_t c, double value) {
  static_cast<float*>(channels)[c] = static_cast<float>(value);
}

bool have_channels(const Shaped& x, std::initializer_list<const void*> all, const char* user) {
  return std::ranges::all_of(all,
                             [&](const void* pointer) { return check_range(pointer, x.dims[1] * 4, user); });
}

}  // namespace

cudnnStatus_t cudnnBatchNormalizationForwardTraining(
    cudnnHandle_t handle, cudnnBatchNormMode_t mode, const void* alpha, const void* beta,
    const cudnnTensorDescriptor_t x_tensor, const void* x, const cudnnTensorDescriptor_t y_tensor, void* y,
    const cudnnTensorDescriptor_t, const void* scale, const void* bias, double share, void* running_mean,
    void* running_variance, double epsilon, void* saved_mean, void* saved_inverse) {
  if (mode != CUDNN_BATCHNORM_SPATIAL || epsilon < CUDNN_BN_MIN_EPSILON)
    return refuse(CUDNN_STATUS_BAD_PARAM, "the mode or epsilon");
  if (!same_shape(x_tensor->shaped, y_tensor->shaped)) return refuse_shapes();
  return run(handle, [=, from = in(x_tensor, x), to = out(y_tensor, y, alpha, beta)] {
    constexpr const char* user = "cudnnBatchNormalizationForwardTraining";
    if (!are_there(user, from, to) ||
        !have_channels(from.shaped, {scale, bias, running_mean, running_variance, saved_mean, saved_inverse},
                       user))
      return;
    const std::int64_t count = from.shaped.count();
    const auto channels = static_cast<std::size_t>(from.shaped.dims[1]);
    const double pixels = static_cast<double>(count) / static_cast<double>(channels);
    std::vector<double> mean(channels, 0.0), variance(channels, 0.0);
    for (std::int64_t i = 0; i < count; ++i) mean[channel(from.shaped, i)] += from.get(i) / pixels;
    for (std::int64_t i = 0; i < count; ++i) {
      const double away = from.get(i) - mean[channel(from.shaped, i)];
      variance[channel(from.shaped, i)] += away * away / pixels;
    }
    for (std::int64_t i = 0; i < count; ++i) {
      const std::size_t c = channel(from.shaped, i);
      to.set(i, (from.get(i) - mean[c]) / std::sqrt(variance[c] + epsilon) * at(scale, c) + at(bias, c));
    }
    for (std::size_t c = 0; c < channels; ++c) {
      const double unbiased = variance[c] * (pixels > 1 ? pixels / (pixels - 1) : 1);
      // With a share of 1 the old value counts nothing, but is read.
      put(running_mean, c, (1 - share) * at(running_mean, c) + share * mean[c]);
      put(running_variance, c, (1 - share) * at(running_variance, c) + share * unbiased);
      put(saved_mean, c, mean[c]);
      put(saved_inverse, c, 1 / std::sqrt(variance[c] + epsilon));
    }
  });
}

cudnnStatus_t cudnnBatchNormalizationForwardInference(cudnnHandle_t handle, cudnnBatchNormMode_t mode,
                                                      const void* alpha, const void* beta,
                                                      const cudnnTensorDescriptor_t x_tensor, const void* x,
                                                      const cudnnTensorDescriptor_t y_tensor, void* y,
                                                      const cudnnTensorDescriptor_t, const void* scale,
                                                      const void* bias, const void* mean,
                                                      const void* variance, double epsilon) {
  if (mode != CUDNN_BATCHNORM_SPATIAL || epsilon < CUDNN_BN_MIN_EPSILON)
    return refuse(CUDNN_STATUS_BAD_PARAM, "the mode or epsilon");
  if (!same_shape(x_tensor->shaped, y_tensor->shaped)) return refuse_shapes();
  return run(handle, [=, from = in(x_tensor, x), to = out(y_tensor, y, alpha, beta)] {
    constexpr const char* user = "cudnnBatchNormalizationForwardInference";
    if (!are_there(user, from, to) || !have_channels(from.shaped, {scale, bias, mean, variance}, user))
      return;
    for (std::int64_t i = 0; i < to.shaped.count(); ++i) {
      const std::size_t c = channel(from.shaped, i);
      to.set(i,
             (from.get(i) - at(mean, c)) / std::sqrt(at(variance, c) + epsilon) * at(scale, c) + at(bias, c));
    }
  });
}

cudnnStatus_t cudnnBatchNormalizationBackward(
    cudnnHandle_t handle, cudnnBatchNormMode_t mode, const void* alpha, const void* beta,
    const void* parameter_alpha, const void* parameter_beta, const cudnnTensorDescriptor_t x_tensor,
    const void* x, const cudnnTensorDescriptor_t dy_tensor, const void* dy,
    const cudnnTensorDescriptor_t dx_tensor, void* dx, const cudnnTensorDescriptor_t, const void* scale,
    void* dscale, void* dbias, double epsilon, const void* mean, const void* inverse) {
  if (mode != CUDNN_BATCHNORM_SPATIAL || epsilon < CUDNN_BN_MIN_EPSILON || factor(parameter_alpha) != 1 ||
      factor(parameter_beta) != 0)
    return refuse(CUDNN_STATUS_BAD_PARAM, "the mode, epsilon or the factors");
  if (!same_shape(x_tensor->shaped, dy_tensor->shaped) || !same_shape(x_tensor->shaped, dx_tensor->shaped))
    return refuse_shapes();
  return run(handle,
             [=, image = in(x_tensor, x), from = in(dy_tensor, dy), to = out(dx_tensor, dx, alpha, beta)] {
               constexpr const char* user = "cudnnBatchNormalizationBackward";
               if (!are_there(user, image, from, to) ||
                   !have_channels(image.shaped, {scale, dscale, dbias, mean, inverse}, user))
                 return;
               const std::int64_t count = image.shaped.count();
               const auto channels = static_cast<std::size_t>(image.shaped.dims[1]);
               const double pixels = static_cast<double>(count) / static_cast<double>(channels);
               const auto normal = [&](std::int64_t i, std::size_t c) {
                 return (image.get(i) - at(mean, c)) * at(inverse, c);
               };
               std::vector<double> sum(channels, 0.0), weighted(channels, 0.0);
               for (std::int64_t i = 0; i < count; ++i) {
                 const std::size_t c = channel(image.shaped, i);
                 sum[c] += from.get(i);
                 weighted[c] += from.get(i) * normal(i, c);
               }
               for (std::int64_t i = 0; i < count; ++i) {
                 const std::size_t c = channel(image.shaped, i);
                 to.set(i, at(scale, c) * at(inverse, c) *
                               (from.get(i) - (sum[c] + normal(i, c) * weighted[c]) / pixels));
               }
               for (std::size_t c = 0; c < channels; ++c) {
                 put(dscale, c, weighted[c]);
                 put(dbias, c, sum[c]);
               }
             });
}
