// The GPU: its first device, one stream, and the handles of cuBLASLt and cuDNN.
#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <fmt/format.h>

#include <map>
#include <set>
#include <type_traits>

#include "backends/cuda/choices.hpp"
#include "backends/cuda/device.hpp"
#include "backends/cuda/gpu/attention.hpp"
#include "backends/cuda/gpu/calls.hpp"
#include "backends/cuda/gpu/capture.hpp"
#include "backends/cuda/gpu/check.hpp"
#include "backends/cuda/gpu/convolution.hpp"
#include "backends/cuda/gpu/cudnn.hpp"
#include "backends/cuda/gpu/device_memory.hpp"
#include "backends/cuda/gpu/lstm.hpp"
#include "backends/cuda/gpu/matmul.hpp"
#include "backends/cuda/gpu/norm.hpp"
#include "backends/cuda/gpu/rank_sums.hpp"
#include "backends/cuda/lstm_steps.hpp"
#include "backends/cuda/own_attention.hpp"
#include "backends/cuda/own_lstm.hpp"
#include "backends/cuda/own_norm.hpp"
#include "backends/cuda/own_products.hpp"
#include "harness/worker/backend.hpp"

namespace assay::cuda {
namespace {

// Streams and handles, in an order that destroys each after its users.
struct Handles {
  cudaStream_t stream = nullptr;
  cublasLtHandle_t blas = nullptr;
  cudnnHandle_t dnn = nullptr;
  ~Handles() {
    if (dnn != nullptr) cudnnDestroy(dnn);
    if (blas != nullptr) cublasLtDestroy(blas);
    if (stream != nullptr) cudaStreamDestroy(stream);
  }
};

void check_there(const char* what, bool there, const std::string& reason) {
  if (!there) throw Unavailable(fmt::format("[cuda] {}: {}", what, reason));
}

// A library that cannot be initialised is missing, or the device has no memory left for it: some libraries call
// both "not initialized".
void check_created(const char* library, bool created, bool no_memory, const char* reason) {
  if (created) return;
  constexpr std::size_t needed = std::size_t{256} << 20;
  std::size_t free = needed, total = 0;
  cudaMemGetInfo(&free, &total);
  if (no_memory || free < needed) {
    throw OutOfMemory(
        fmt::format("[cuda] {}: {}; {} of the device's {} bytes are free", library, reason, free, total));
  }
  check_there(library, false, reason);
}

std::int64_t granted(const DeviceOptions& options) {
  std::size_t free = 0, total = 0;
  ASSAY_CUDA(cudaMemGetInfo(&free, &total));
  std::int64_t limit = 0;
  if (options.memory_fraction > 0)
    limit = static_cast<std::int64_t>(options.memory_fraction * static_cast<double>(total));
  if (options.memory_cap > 0) limit = limit == 0 ? options.memory_cap : smaller(limit, options.memory_cap);
  return limit;
}

class GpuDevice final : public Device {
 public:
  explicit GpuDevice(const DeviceOptions& options) : options_(options) {
    if (options_.choices == nullptr) options_.choices = std::make_shared<Choices>();
    ASSAY_CUDA(cudaStreamCreateWithFlags(&handles_.stream, cudaStreamNonBlocking));
    const cublasStatus_t blas = cublasLtCreate(&handles_.blas);
    check_created("cuBLASLt", blas == CUBLAS_STATUS_SUCCESS, blas == CUBLAS_STATUS_ALLOC_FAILED,
                  cublasLtGetStatusString(blas));
    const cudnnStatus_t dnn = cudnnCreate(&handles_.dnn);
    check_created("cuDNN", dnn == CUDNN_STATUS_SUCCESS,
                  dnn == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED ||
                      dnn == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED,
                  cudnnGetErrorString(dnn));
    ASSAY_CUDNN(cudnnSetStream(handles_.dnn, handles_.stream));
    memory_ = std::make_unique<DeviceMemory>(handles_.stream, granted(options));
    calls_ = make_cudnn_calls(handles_.dnn, handles_.stream, options.deterministic);
    if (options.ranks != nullptr) ranks_ = make_rank_sums(options.ranks, handles_.stream, *memory_);
  }

  Memory& memory() override { return *memory_; }
  Stream stream() override { return {handles_.stream}; }

  std::unique_ptr<Matmul> matmul(const MatmulSpec& spec) override {
    LtAlgorithm& known = algorithms_[spec];
    const bool measures = !spec.bare && !options_.deterministic;
    const auto make = [&] {
      return make_lt_matmul(spec, handles_.blas, target(), measures ? memory_.get() : nullptr, known);
    };
    auto product = measures && !known.result ? searched(make) : make();
    if (product == nullptr) {
      const std::string missing = fmt::format("[matmul] cuBLASLt has no algorithm {}for {}",
                                              known.all_are_wrong ? "that is right " : "", text_of(spec));
      if (spec.bare) throw Unsupported(missing);
      if (products_without_.insert(text_of(spec)).second) {
        fmt::print(stderr, "{}: our own slow kernel runs\n", missing);
        options_.choices->fall_back("matmul");
      }
      product = make_own_matmul(spec, stream());
    }
    options_.choices->take(text_of(spec), product->name());
    return product;
  }

  std::shared_ptr<Convolution> convolution(const ConvolutionSpec& given) override {
    ConvolutionSpec spec = given;
    spec.deterministic = options_.deterministic;
    std::shared_ptr<Convolution>& known = convolutions_[spec];  // a network has many equal convolutions
    if (known == nullptr) known = searched([&] { return make_cudnn_convolution(spec, target(), *memory_); });
    if (known == nullptr) {
      options_.choices->fall_back("convolution");
      known = make_own_convolution(spec, stream());
    }
    options_.choices->take(text_of(spec), known->name());
    return known;
  }

  std::shared_ptr<Norm> norm(const NormSpec& given) override {
    NormSpec spec = given;
    spec.deterministic = options_.deterministic;
    std::shared_ptr<Norm>& known = norms_[spec];
    if (known == nullptr) known = searched([&] { return make_cudnn_norm(spec, target(), *memory_); });
    if (known == nullptr) known = make_own_norm(spec, stream());
    options_.choices->take(text_of(spec), known->name());
    return known;
  }

  std::shared_ptr<Attention> attention(const AttentionSpec& given) override {
    AttentionSpec spec = given;
    spec.deterministic = options_.deterministic;
    std::shared_ptr<Attention>& known = attentions_[spec];
    const auto make_own = [&](const AttentionSpec& of, std::string name) {
      return make_own_attention(of, *this, std::move(name));
    };
    if (known == nullptr)
      known = searched_with_own([&] { return make_cudnn_attention(spec, target(), *memory_, make_own); });
    if (known == nullptr) known = make_own_attention(spec, *this);
    options_.choices->take(text_of(spec), known->name());
    return known;
  }

  std::shared_ptr<Lstm> lstm(const LstmSpec& given) override {
    LstmSpec spec = given;
    spec.deterministic = options_.deterministic;
    std::shared_ptr<Lstm>& known = lstms_[spec];
    const auto make_own = [&] {
      return has_lstm_steps(spec) ? make_own_lstm(spec, *this, "own:lstm", ":measured") : nullptr;
    };
    if (known == nullptr)
      known = searched_with_own([&] { return make_fast_lstm(spec, target(), *memory_, *calls_, make_own); });
    if (known == nullptr) {
      options_.choices->fall_back("lstm");
      known = make_own_lstm(spec, *this);
    }
    options_.choices->take(text_of(spec), known->name());
    return known;
  }

  Calls& calls() override { return *calls_; }
  RankSums* ranks() override { return ranks_.get(); }

  std::unique_ptr<Recording> record(std::span<const GraphPart> parts, std::size_t min_nodes) override {
    return capture(handles_.stream, parts, min_nodes);
  }

  void synchronize() override { ASSAY_CUDA(cudaStreamSynchronize(handles_.stream)); }

 private:
  // What make() makes. The buffers of its search do not count in the peak.
  template <typename Make>
  std::invoke_result_t<Make> searched(const Make& make) {
    const std::int64_t before = memory_->peak();
    auto made = make();
    memory_->forget_trial(before);
    return made;
  }

  // The same where make() also makes our own kernels: their products count only if they are taken.
  template <typename Make>
  std::invoke_result_t<Make> searched_with_own(const Make& make) {
    const Choices::Taken before = options_.choices->taken();
    auto made = searched(make);
    if (made == nullptr || !made->is_own()) options_.choices->forget_since(before);
    return made;
  }

  Target target() { return {handles_.dnn, handles_.stream, options_.choices.get()}; }

  DeviceOptions options_;
  Handles handles_;
  std::unique_ptr<DeviceMemory> memory_;
  std::unique_ptr<Calls> calls_;
  std::unique_ptr<RankSums> ranks_;
  std::map<MatmulSpec, LtAlgorithm> algorithms_;
  std::set<std::string> products_without_;  // an algorithm
  std::map<ConvolutionSpec, std::shared_ptr<Convolution>> convolutions_;
  std::map<NormSpec, std::shared_ptr<Norm>> norms_;
  std::map<AttentionSpec, std::shared_ptr<Attention>> attentions_;
  std::map<LstmSpec, std::shared_ptr<Lstm>> lstms_;
};

}  // namespace

std::unique_ptr<Device> open_device(const DeviceOptions& options) {
  int devices = 0;
  const cudaError_t status = cudaGetDeviceCount(&devices);
  if (status != cudaSuccess) cudaGetLastError();
  check_there("no GPU can be used", status == cudaSuccess && devices > 0,
              status == cudaSuccess ? "the driver reports no device" : reason_of(status));
  ASSAY_CUDA(cudaSetDevice(0));
  int pools = 0;
  ASSAY_CUDA(cudaDeviceGetAttribute(&pools, cudaDevAttrMemoryPoolsSupported, 0));
  check_there(
      "the GPU cannot be used", pools != 0,
      "it has no memory pools, as some profiles of a vGPU; use a profile with unified memory, or a whole GPU");
  return std::make_unique<GpuDevice>(options);
}

}  // namespace assay::cuda
