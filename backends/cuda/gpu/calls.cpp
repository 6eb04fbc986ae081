// cuDNN's functions on tensors. cuDNN 9 calls most of them deprecated in favor of its graph API, whose
// engines for these operations are for tensor cores and some layouts only; these run everywhere, in each
// type.
#include "backends/cuda/gpu/calls.hpp"

#include <vector>

#include "backends/cuda/gpu/check.hpp"
#include "backends/cuda/gpu/cudnn.hpp"
#include "backends/cuda/gpu/pointwise_graph.hpp"
#include "backends/cuda/kernels/portable.hpp"

namespace assay::cuda {
namespace {

using ActivationDescriptor = Descriptor<cudnnActivationDescriptor_t, cudnnCreateActivationDescriptor,
                                        cudnnDestroyActivationDescriptor>;
using BinaryDescriptor =
    Descriptor<cudnnOpTensorDescriptor_t, cudnnCreateOpTensorDescriptor, cudnnDestroyOpTensorDescriptor>;
using ReduceDescriptor = Descriptor<cudnnReduceTensorDescriptor_t, cudnnCreateReduceTensorDescriptor,
                                    cudnnDestroyReduceTensorDescriptor>;
using PoolDescriptor =
    Descriptor<cudnnPoolingDescriptor_t, cudnnCreatePoolingDescriptor, cudnnDestroyPoolingDescriptor>;

// The factors of each call: results replace what was there.
constexpr float one = 1, zero = 0;

// cuDNN takes at least three dimensions and recommends four: the rest is 1.
std::shared_ptr<TensorDescriptor> describe(const TensorSpec& spec) {
  constexpr std::size_t least = 4;
  std::vector<int> shape(spec.shape.begin(), spec.shape.end());
  std::vector<int> strides(spec.strides.begin(), spec.strides.end());
  while (shape.size() < least) {
    shape.push_back(1);
    strides.push_back(1);
  }
  auto descriptor = std::make_shared<TensorDescriptor>();
  ASSAY_CUDNN(cudnnSetTensorNdDescriptor(descriptor->get(), cudnn_type(spec.dtype),
                                         static_cast<int>(shape.size()), shape.data(), strides.data()));
  return descriptor;
}

// The types of bnScale and its like.
std::shared_ptr<TensorDescriptor> describe_channels(const TensorDescriptor& x) {
  auto descriptor = std::make_shared<TensorDescriptor>();
  ASSAY_CUDNN(cudnnDeriveBNTensorDescriptor(descriptor->get(), x.get(), CUDNN_BATCHNORM_SPATIAL));
  return descriptor;
}

std::shared_ptr<ActivationDescriptor> describe(Activation kind) {
  auto descriptor = std::make_shared<ActivationDescriptor>();
  const cudnnActivationMode_t mode = kind == Activation::relu      ? CUDNN_ACTIVATION_RELU
                                     : kind == Activation::sigmoid ? CUDNN_ACTIVATION_SIGMOID
                                                                   : CUDNN_ACTIVATION_TANH;
  ASSAY_CUDNN(cudnnSetActivationDescriptor(descriptor->get(), mode, CUDNN_PROPAGATE_NAN, 0));
  return descriptor;
}

// Only the graph API has softplus and softsign.
bool in_graphs_only(Activation kind) { return kind == Activation::softplus || kind == Activation::softsign; }

class CudnnCalls final : public Calls {
 public:
  CudnnCalls(cudnnHandle_t handle, cudaStream_t stream, bool deterministic)
      : handle_(handle), stream_(stream), deterministic_(deterministic) {}

  Call activation(Activation kind, const TensorSpec& spec) override {
    if (in_graphs_only(kind)) return make_pointwise_graph(handle_, kind, false, spec);
    return {"cudnn:activation",
            [handle = handle_, how = describe(kind), x = describe(spec)](Places from, Places to, void*) {
              ASSAY_CUDNN(cudnnActivationForward(handle, how->get(), &one, x->get(), from[0], &zero, x->get(),
                                                 to[0]));
            }};
  }

  // The gradient of each is a function of y; cuDNN also asks for x, and gets it.
  Call activation_gradient(Activation kind, const TensorSpec& spec) override {
    if (in_graphs_only(kind)) return make_pointwise_graph(handle_, kind, true, spec);
    return {"cudnn:activation_gradient",
            [handle = handle_, how = describe(kind), x = describe(spec)](Places from, Places to, void*) {
              ASSAY_CUDNN(cudnnActivationBackward(handle, how->get(), &one, x->get(), from[0], x->get(),
                                                  from[1], x->get(), from[0], &zero, x->get(), to[0]));
            }};
  }

  Call binary(Binary kind, float scale_a, const TensorSpec& a, float scale_b, const TensorSpec& b,
              const TensorSpec& to) override {
    auto how = std::make_shared<BinaryDescriptor>();
    const cudnnOpTensorOp_t op = kind == Binary::add        ? CUDNN_OP_TENSOR_ADD
                                 : kind == Binary::multiply ? CUDNN_OP_TENSOR_MUL
                                                            : CUDNN_OP_TENSOR_MAX;
    ASSAY_CUDNN(cudnnSetOpTensorDescriptor(how->get(), op, CUDNN_DATA_FLOAT, CUDNN_PROPAGATE_NAN));
    return {"cudnn:op_tensor", [=, handle = handle_, a_desc = describe(a), b_desc = describe(b),
                                c_desc = describe(to)](Places from, Places result, void*) {
              ASSAY_CUDNN(cudnnOpTensor(handle, how->get(), &scale_a, a_desc->get(), from[0], &scale_b,
                                        b_desc->get(), from[1], &zero, c_desc->get(), result[0]));
            }};
  }

  Call repeat(float scale, const TensorSpec& spec, const TensorSpec& to) override {
    return {"cudnn:add_tensor",
            [=, handle = handle_, x = describe(spec), y = describe(to)](Places from, Places result, void*) {
              ASSAY_CUDNN(cudnnAddTensor(handle, &scale, x->get(), from[0], &zero, y->get(), result[0]));
            }};
  }

  Call reduce(Reduction kind, const TensorSpec& spec, const TensorSpec& to) override {
    auto how = std::make_shared<ReduceDescriptor>();
    const cudnnReduceTensorOp_t op = kind == Reduction::sum    ? CUDNN_REDUCE_TENSOR_ADD
                                     : kind == Reduction::mean ? CUDNN_REDUCE_TENSOR_AVG
                                                               : CUDNN_REDUCE_TENSOR_MAX;
    ASSAY_CUDNN(cudnnSetReduceTensorDescriptor(how->get(), op, CUDNN_DATA_FLOAT, CUDNN_PROPAGATE_NAN,
                                               CUDNN_REDUCE_TENSOR_NO_INDICES, CUDNN_32BIT_INDICES));
    auto x = describe(spec), y = describe(to);
    std::size_t bytes = 0;
    ASSAY_CUDNN(cudnnGetReductionWorkspaceSize(handle_, how->get(), x->get(), y->get(), &bytes));
    return {"cudnn:reduce_tensor",
            [=, handle = handle_](Places from, Places result, void* workspace) {
              ASSAY_CUDNN(cudnnReduceTensor(handle, how->get(), nullptr, 0, workspace, bytes, &one, x->get(),
                                            from[0], &zero, y->get(), result[0]));
            },
            static_cast<std::int64_t>(bytes)};
  }

  Call fill(float value, const TensorSpec& to) override {
    // cuDNN reads the value in the type of the tensor.
    const bool narrow_type = to.dtype == DType::bf16;
    return {"cudnn:set_tensor", [=, handle = handle_, y = describe(to), narrowed = narrow<Bf16>(value)](
                                    Places, Places result, void*) {
              const void* const from = narrow_type ? static_cast<const void*>(&narrowed) : &value;
              ASSAY_CUDNN(cudnnSetTensor(handle, y->get(), result[0], from));
            }};
  }

  Call transform(const TensorSpec& spec, const TensorSpec& to) override {
    return {"cudnn:transform_tensor",
            [handle = handle_, x = describe(spec), y = describe(to)](Places from, Places result, void*) {
              ASSAY_CUDNN(cudnnTransformTensor(handle, &one, x->get(), from[0], &zero, y->get(), result[0]));
            }};
  }

  Call copy(const RowCopy& rows) override {
    const auto bytes = static_cast<std::size_t>(rows.bytes), count = static_cast<std::size_t>(rows.rows);
    const auto from_pitch = static_cast<std::size_t>(rows.from_pitch);
    const auto to_pitch = static_cast<std::size_t>(rows.to_pitch);
    if (count == 1) {
      return {"cuda:memcpy", [=, stream = stream_](Places from, Places to, void*) {
                ASSAY_CUDA(cudaMemcpyAsync(to[0], from[0], bytes, cudaMemcpyDeviceToDevice, stream));
              }};
    }
    return {"cuda:memcpy2d", [=, stream = stream_](Places from, Places to, void*) {
              ASSAY_CUDA(cudaMemcpy2DAsync(to[0], to_pitch, from[0], from_pitch, bytes, count,
                                           cudaMemcpyDeviceToDevice, stream));
            }};
  }

  Call pool(const PoolSpec& spec) override {
    return {"cudnn:pooling", [handle = handle_, how = window_of(spec), x = describe(spec.x),
                              y = describe(spec.y)](Places from, Places to, void*) {
              ASSAY_CUDNN(
                  cudnnPoolingForward(handle, how->get(), &one, x->get(), from[0], &zero, y->get(), to[0]));
            }};
  }

  Call pool_gradient(const PoolSpec& spec) override {
    return {"cudnn:pooling_gradient", [handle = handle_, how = window_of(spec), x = describe(spec.x),
                                       y = describe(spec.y)](Places from, Places to, void*) {
              ASSAY_CUDNN(cudnnPoolingBackward(handle, how->get(), &one, y->get(), from[1], y->get(), from[2],
                                               x->get(), from[0], &zero, x->get(), to[0]));
            }};
  }

  Call softmax(const TensorSpec& spec) override {
    return {"cudnn:softmax", [handle = handle_, x = describe(spec)](Places from, Places to, void*) {
              ASSAY_CUDNN(cudnnSoftmaxForward(handle, CUDNN_SOFTMAX_ACCURATE, CUDNN_SOFTMAX_MODE_CHANNEL,
                                              &one, x->get(), from[0], &zero, x->get(), to[0]));
            }};
  }

  Call softmax_gradient(const TensorSpec& spec) override {
    return {
        "cudnn:softmax_gradient", [handle = handle_, x = describe(spec)](Places from, Places to, void*) {
          ASSAY_CUDNN(cudnnSoftmaxBackward(handle, CUDNN_SOFTMAX_ACCURATE, CUDNN_SOFTMAX_MODE_CHANNEL, &one,
                                           x->get(), from[0], x->get(), from[1], &zero, x->get(), to[0]));
        }};
  }

  // With a factor of 1 cuDNN's running statistics are those of the batch. It reads them all the same: they
  // must be numbers.
  Call norm_training(const TensorSpec& spec, double epsilon) override {
    auto x = describe(spec);
    const std::size_t bytes = static_cast<std::size_t>(spec.shape[1]) * sizeof(float);
    return {"cudnn:batch_norm", [=, handle = handle_, stream = stream_, channels = describe_channels(*x)](
                                    Places from, Places to, void*) {
              for (const std::size_t running : {3U, 4U})
                ASSAY_CUDA(cudaMemsetAsync(to[running], 0, bytes, stream));
              ASSAY_CUDNN(cudnnBatchNormalizationForwardTraining(
                  handle, CUDNN_BATCHNORM_SPATIAL, &one, &zero, x->get(), from[0], x->get(), to[0],
                  channels->get(), from[1], from[2], 1, to[3], to[4], epsilon, to[1], to[2]));
            }};
  }

  Call norm_inference(const TensorSpec& spec, double epsilon) override {
    auto x = describe(spec);
    return {"cudnn:batch_norm",
            [=, handle = handle_, channels = describe_channels(*x)](Places from, Places to, void*) {
              ASSAY_CUDNN(cudnnBatchNormalizationForwardInference(
                  handle, CUDNN_BATCHNORM_SPATIAL, &one, &zero, x->get(), from[0], x->get(), to[0],
                  channels->get(), from[1], from[2], from[3], from[4], epsilon));
            }};
  }

  Call norm_gradient(const TensorSpec& spec, double epsilon) override {
    auto x = describe(spec);
    return {"cudnn:batch_norm_gradient",
            [=, handle = handle_, channels = describe_channels(*x)](Places from, Places to, void*) {
              ASSAY_CUDNN(cudnnBatchNormalizationBackward(handle, CUDNN_BATCHNORM_SPATIAL, &one, &zero, &one,
                                                          &zero, x->get(), from[0], x->get(), from[4],
                                                          x->get(), to[0], channels->get(), from[1], to[1],
                                                          to[2], epsilon, from[2], from[3]));
            }};
  }

 private:
  std::shared_ptr<PoolDescriptor> window_of(const PoolSpec& spec) const {
    auto descriptor = std::make_shared<PoolDescriptor>();
    const cudnnPoolingMode_t mean = spec.counts_padding ? CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING
                                                        : CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING;
    const cudnnPoolingMode_t largest = deterministic_ ? CUDNN_POOLING_MAX_DETERMINISTIC : CUDNN_POOLING_MAX;
    const auto number = [](std::int64_t value) { return static_cast<int>(value); };
    const PoolAxis &rows = spec.rows, &columns = spec.columns;
    ASSAY_CUDNN(cudnnSetPooling2dDescriptor(descriptor->get(), spec.maximum ? largest : mean,
                                            CUDNN_PROPAGATE_NAN, number(rows.kernel), number(columns.kernel),
                                            number(rows.padding), number(columns.padding),
                                            number(rows.stride), number(columns.stride)));
    return descriptor;
  }

  cudnnHandle_t handle_;
  cudaStream_t stream_;
  bool deterministic_;
};

}  // namespace

std::unique_ptr<Calls> make_cudnn_calls(cudnnHandle_t handle, cudaStream_t stream, bool deterministic) {
  return std::make_unique<CudnnCalls>(handle, stream, deterministic);
}

}  // namespace assay::cuda
