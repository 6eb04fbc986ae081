#include "backends/cuda/gpu/lstm.hpp"

#include <fmt/format.h>

#include <stdexcept>
#include <vector>

#include "backends/cuda/gpu/check.hpp"
#include "backends/cuda/lowering.hpp"
#include "backends/cuda/own_lstm.hpp"

#define ASSAY_CUDNN(call) ::assay::cuda::check_cudnn(#call, call)

namespace assay::cuda {
namespace {

// Statuses that mean "not supported" and not "failed".
struct NotSupported {
  std::string reason;
};

void check_cudnn(const char* call, cudnnStatus_t status) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  throw std::runtime_error(fmt::format("[cudnn] {}: {}", call, cudnnGetErrorString(status)));
}

void check_supported(const char* call, cudnnStatus_t status) {
  if (status != CUDNN_STATUS_SUCCESS)
    throw NotSupported{fmt::format("{}: {}", call, cudnnGetErrorString(status))};
}

template <typename T, cudnnStatus_t (*Create)(T*), cudnnStatus_t (*Destroy)(T)>
class Descriptor {
 public:
  Descriptor() { ASSAY_CUDNN(Create(&value_)); }
  ~Descriptor() { Destroy(value_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  T get() const { return value_; }

 private:
  T value_ = nullptr;
};
using Network = Descriptor<cudnnRNNDescriptor_t, cudnnCreateRNNDescriptor, cudnnDestroyRNNDescriptor>;
using Sequences =
    Descriptor<cudnnRNNDataDescriptor_t, cudnnCreateRNNDataDescriptor, cudnnDestroyRNNDataDescriptor>;
using TensorDescriptor =
    Descriptor<cudnnTensorDescriptor_t, cudnnCreateTensorDescriptor, cudnnDestroyTensorDescriptor>;

// The reserve: cuDNN's own, the packed parameters, and y of all steps, which the gradients read.
class CudnnLstm final : public Lstm {
 public:
  CudnnLstm(const LstmSpec& spec, cudnnHandle_t handle, cudaStream_t stream)
      : s_(spec), handle_(handle), stream_(stream), element_(size_of(spec.operands)) {
    describe();
    lay_out();
    find_parameters();
  }

  std::int64_t reserve_bytes() const override { return reserve_.bytes(); }
  std::int64_t forward_workspace_bytes() const override {
    return static_cast<std::int64_t>(workspace_bytes_);
  }
  std::int64_t gradient_workspace_bytes() const override { return gradient_.bytes(); }
  std::string name() const override {
    return fmt::format("cudnn:lstm:standard:workspace{}", workspace_bytes_);
  }

  void forward(const LstmOperands& in, void* y, void* reserve, void* workspace) override {
    void *const packed = at(reserve, packed_), *const all = at(reserve, y_);
    pack_lstm({stream_}, s_.operands, packing_, in, packed);
    ASSAY_CUDNN(cudnnRNNForward(handle_, network_.get(), mode(), nullptr, x_.get(), in.x, y_desc_.get(), all,
                                state_.get(), nullptr, nullptr, state_.get(), nullptr, nullptr,
                                parameter_bytes_, packed, workspace_bytes_, workspace, reserve_bytes_,
                                at(reserve, own_)));
    const std::int64_t row = s_.units * element_;
    if (s_.last)
      copy_rows(y, row, at(all, (s_.steps - 1) * row), s_.steps * row);
    else
      ASSAY_CUDA(cudaMemcpyAsync(y, all, bytes_of_y(), cudaMemcpyDeviceToDevice, stream_));
  }

  void gradient(const LstmOperands& in, const void* dy, void* reserve, const LstmGradients& to,
                void* workspace) override {
    void *const packed = at(reserve, packed_), *const all = at(reserve, y_), *const own = at(reserve, own_);
    void *const space = at(workspace, space_), *const dparameters = at(workspace, dparameters_);
    if (s_.last) {
      const std::int64_t row = s_.units * element_;
      void* const spread = at(workspace, dy_);
      ASSAY_CUDA(cudaMemsetAsync(spread, 0, bytes_of_y(), stream_));
      copy_rows(at(spread, (s_.steps - 1) * row), s_.steps * row, dy, row);
      dy = spread;
    }
    void* const dx = to.dx != nullptr ? to.dx : at(workspace, dx_);
    ASSAY_CUDNN(cudnnRNNBackwardData_v8(handle_, network_.get(), nullptr, y_desc_.get(), all, dy, x_.get(),
                                        dx, state_.get(), nullptr, nullptr, nullptr, state_.get(), nullptr,
                                        nullptr, nullptr, parameter_bytes_, packed, workspace_bytes_, space,
                                        reserve_bytes_, own));
    // cuDNN can only add to the result.
    ASSAY_CUDA(cudaMemsetAsync(dparameters, 0, parameter_bytes_, stream_));
    ASSAY_CUDNN(cudnnRNNBackwardWeights_v8(handle_, network_.get(), CUDNN_WGRAD_MODE_ADD, nullptr, x_.get(),
                                           in.x, state_.get(), nullptr, y_desc_.get(), all, parameter_bytes_,
                                           dparameters, workspace_bytes_, space, reserve_bytes_, own));
    unpack_lstm({stream_}, s_.operands, packing_, dparameters, to);
  }

 private:
  static void* at(void* base, std::int64_t offset) { return static_cast<std::byte*>(base) + offset; }
  cudnnForwardMode_t mode() const { return s_.training ? CUDNN_FWD_MODE_TRAINING : CUDNN_FWD_MODE_INFERENCE; }
  std::size_t bytes_of_y() const { return static_cast<std::size_t>(s_.places() * s_.units * element_); }

  // One row of y per sample.
  void copy_rows(void* to, std::int64_t to_pitch, const void* from, std::int64_t from_pitch) const {
    ASSAY_CUDA(cudaMemcpy2DAsync(to, static_cast<std::size_t>(to_pitch), from,
                                 static_cast<std::size_t>(from_pitch),
                                 static_cast<std::size_t>(s_.units * element_),
                                 static_cast<std::size_t>(s_.samples), cudaMemcpyDeviceToDevice, stream_));
  }

  void describe() {
    const bool narrow = s_.operands == DType::bf16;
    const cudnnDataType_t type = narrow ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
    // Strict fp32 uses only FMA; the default may round the operands to TF32.
    const cudnnMathType_t math = narrow    ? CUDNN_TENSOR_OP_MATH
                                 : s_.tf32 ? CUDNN_DEFAULT_MATH
                                           : CUDNN_FMA_MATH;
    check_supported("cudnnSetRNNDescriptor_v8",
                    cudnnSetRNNDescriptor_v8(
                        network_.get(), CUDNN_RNN_ALGO_STANDARD, CUDNN_LSTM, CUDNN_RNN_SINGLE_INP_BIAS,
                        CUDNN_UNIDIRECTIONAL, CUDNN_LINEAR_INPUT, type, CUDNN_DATA_FLOAT, math,
                        static_cast<std::int32_t>(s_.features), static_cast<std::int32_t>(s_.units),
                        static_cast<std::int32_t>(s_.units), 1, nullptr, CUDNN_RNN_PADDED_IO_ENABLED));
    describe(x_, type, s_.features);
    describe(y_desc_, type, s_.units);
    const int size[] = {1, static_cast<int>(s_.samples), static_cast<int>(s_.units)};
    const int stride[] = {size[1] * size[2], size[2], 1};
    ASSAY_CUDNN(cudnnSetTensorNdDescriptor(state_.get(), type, 3, size, stride));
  }

  void describe(const Sequences& sequences, cudnnDataType_t type, std::int64_t width) const {
    const std::vector<int> lengths(static_cast<std::size_t>(s_.samples), static_cast<int>(s_.steps));
    check_supported(
        "cudnnSetRNNDataDescriptor",
        cudnnSetRNNDataDescriptor(sequences.get(), type, CUDNN_RNN_DATA_LAYOUT_BATCH_MAJOR_UNPACKED,
                                  static_cast<int>(s_.steps), static_cast<int>(s_.samples),
                                  static_cast<int>(width), lengths.data(), nullptr));
  }

  void lay_out() {
    check_supported("cudnnGetRNNTempSpaceSizes",
                    cudnnGetRNNTempSpaceSizes(handle_, network_.get(), mode(), x_.get(), &workspace_bytes_,
                                              &reserve_bytes_));
    check_supported("cudnnGetRNNWeightSpaceSize",
                    cudnnGetRNNWeightSpaceSize(handle_, network_.get(), &parameter_bytes_));
    own_ = reserve_.add(static_cast<std::int64_t>(reserve_bytes_));
    packed_ = reserve_.add(static_cast<std::int64_t>(parameter_bytes_));
    y_ = reserve_.add(static_cast<std::int64_t>(bytes_of_y()));
    if (!s_.training) return;
    space_ = gradient_.add(static_cast<std::int64_t>(workspace_bytes_));
    dparameters_ = gradient_.add(static_cast<std::int64_t>(parameter_bytes_));
    dy_ = gradient_.add(s_.last ? static_cast<std::int64_t>(bytes_of_y()) : 0);
    dx_ = gradient_.add(s_.places() * s_.features * element_);
  }

  // cuDNN's "linear layers": 0 to 3 read x, 4 to 7 the state. Each four are in the order input, forget, new
  // memory, output, as ours. In a buffer at address 0 the addresses are offsets.
  void find_parameters() {
    packing_.units = s_.units;
    packing_.features = s_.features;
    const TensorDescriptor matrix, vector;
    for (std::size_t gate = 0; gate < 4; ++gate) {
      void *weight = nullptr, *recurrent = nullptr, *bias = nullptr, *none_there = nullptr;
      ASSAY_CUDNN(cudnnGetRNNWeightParams(handle_, network_.get(), 0, parameter_bytes_, nullptr,
                                          static_cast<std::int32_t>(gate), matrix.get(), &weight,
                                          vector.get(), &bias));
      ASSAY_CUDNN(cudnnGetRNNWeightParams(handle_, network_.get(), 0, parameter_bytes_, nullptr,
                                          static_cast<std::int32_t>(gate) + 4, matrix.get(), &recurrent,
                                          vector.get(), &none_there));
      packing_.weight[gate] = elements_at(weight);
      packing_.recurrent[gate] = elements_at(recurrent);
      packing_.bias[gate] = elements_at(bias);
    }
  }

  std::int64_t elements_at(const void* address) const {
    return static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(address)) / element_;
  }

  LstmSpec s_;
  cudnnHandle_t handle_;
  cudaStream_t stream_;
  std::int64_t element_;  // bytes
  Network network_;
  Sequences x_, y_desc_;
  TensorDescriptor state_;
  std::size_t workspace_bytes_ = 0, reserve_bytes_ = 0, parameter_bytes_ = 0;  // as cuDNN reports
  LstmPacking packing_;
  Scratch reserve_, gradient_;
  std::int64_t own_ = 0, packed_ = 0, y_ = 0;                   // in the reserve
  std::int64_t space_ = 0, dparameters_ = 0, dy_ = 0, dx_ = 0;  // in the gradient's workspace
};

}  // namespace

std::unique_ptr<Lstm> make_cudnn_lstm(const LstmSpec& spec, cudnnHandle_t handle, cudaStream_t stream) {
  try {
    return std::make_unique<CudnnLstm>(spec, handle, stream);
  } catch (const NotSupported& missing) {
    fmt::print(stderr,
               "[lstm] cuDNN {} has no LSTM for {} samples, {} steps, {} features, {} units, {}: {}. Our own "
               "runs, with one launch per step\n",
               cudnnGetVersion(), spec.samples, spec.steps, spec.features, spec.units,
               to_string(spec.operands), missing.reason);
    return nullptr;
  }
}

}  // namespace assay::cuda
