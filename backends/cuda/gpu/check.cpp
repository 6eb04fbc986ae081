#include "backends/cuda/gpu/check.hpp"

#include <fmt/format.h>

#include <stdexcept>

#include "backends/cuda/gpu/cudnn.hpp"
#include "backends/cuda/gpu/matmul.hpp"
#include "harness/worker/backend.hpp"

namespace assay::cuda {

std::string cuda_version(int number) { return fmt::format("{}.{}", number / 1000, number % 1000 / 10); }

std::string driver_too_old(int driver, int runtime) {
  // The first driver of each CUDA: docs.nvidia.com/deploy/cuda-compatibility
  const int major = runtime / 1000;
  const std::string needed = major == 13   ? "driver 580 or newer"
                             : major == 12 ? "driver 525 or newer"
                                           : "a newer driver";
  return fmt::format(
      "the driver has CUDA up to {}, and this program was built with CUDA {}; install {}, or the package "
      "cuda-compat of CUDA {} on a GPU for data centers",
      cuda_version(driver), cuda_version(runtime), needed, cuda_version(runtime));
}

std::string reason_of(cudaError_t status) {
  std::string text = fmt::format("{} ({})", cudaGetErrorString(status), cudaGetErrorName(status));
  if (status == cudaErrorNoDevice)
    return text + "; check the driver with nvidia-smi, and CUDA_VISIBLE_DEVICES";
  if (status != cudaErrorInsufficientDriver) return text;
  int driver = 0, runtime = 0;
  cudaDriverGetVersion(&driver);  // 0 without a driver
  cudaRuntimeGetVersion(&runtime);
  return fmt::format(
      "{}; {}", text,
      driver > 0 ? driver_too_old(driver, runtime) : "no driver is loaded: check it with nvidia-smi");
}

void fail(const char* call, cudaError_t status) {
  cudaGetLastError();  // clears an error that is not sticky
  const std::string text = fmt::format("[cuda] {}: {}", call, reason_of(status));
  switch (status) {
    case cudaErrorMemoryAllocation:
      throw OutOfMemory(text);
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorUnsupportedPtxVersion:
      throw Unavailable(text +
                        "; add the architecture of this GPU to ASSAY_CUDA_ARCHITECTURES and build again");
    case cudaErrorInsufficientDriver:
    case cudaErrorNoDevice:
      throw Unavailable(text);
    default:
      throw std::runtime_error(text);
  }
}

void check_cudnn(const char* call, cudnnStatus_t status) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  const std::string text = fmt::format("[cudnn] {}: {}", call, cudnnGetErrorString(status));
  if (status == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED ||
      status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED)
    throw OutOfMemory(text);
  if (CUDNN_STATUS_CATEGORY(status) == CUDNN_STATUS_NOT_SUPPORTED) throw Unsupported(text);
  throw std::runtime_error(text);
}

void check_cublas(const char* call, cublasStatus_t status) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  const std::string text = fmt::format("[cublasLt] {}: {}", call, cublasLtGetStatusString(status));
  if (status == CUBLAS_STATUS_ALLOC_FAILED) throw OutOfMemory(text);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED) throw Unsupported(text);
  throw std::runtime_error(text);
}

bool has_algorithm(cublasStatus_t status, int found) {
  if (status == CUBLAS_STATUS_NOT_SUPPORTED) return false;
  check_cublas("cublasLtMatmulAlgoGetHeuristic", status);
  return found > 0;
}

cudnnDataType_t cudnn_type(DType dtype) {
  return dtype == DType::bf16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
}

}  // namespace assay::cuda
