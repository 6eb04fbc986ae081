#include "backends/cuda/gpu/check.hpp"

#include <fmt/format.h>

#include <stdexcept>

namespace assay::cuda {

void fail(const char* call, cudaError_t status) {
  cudaGetLastError();  // clears an error that is not sticky
  throw std::runtime_error(
      fmt::format("[cuda] {}: {} ({})", call, cudaGetErrorString(status), cudaGetErrorName(status)));
}

}  // namespace assay::cuda
