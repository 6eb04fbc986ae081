#include "backends/cuda/gpu/check.hpp"

#include <fmt/format.h>

#include <stdexcept>

#include "backends/cuda/gpu/cudnn.hpp"
#include "harness/worker/backend.hpp"

namespace assay::cuda {

void fail(const char* call, cudaError_t status) {
  cudaGetLastError();  // clears an error that is not sticky
  throw std::runtime_error(
      fmt::format("[cuda] {}: {} ({})", call, cudaGetErrorString(status), cudaGetErrorName(status)));
}

void check_cudnn(const char* call, cudnnStatus_t status) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  const std::string text = fmt::format("[cudnn] {}: {}", call, cudnnGetErrorString(status));
  if (CUDNN_STATUS_CATEGORY(status) == CUDNN_STATUS_NOT_SUPPORTED) throw Unsupported(text);
  throw std::runtime_error(text);
}

cudnnDataType_t cudnn_type(DType dtype) {
  return dtype == DType::bf16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
}

}  // namespace assay::cuda
