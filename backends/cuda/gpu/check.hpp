// Every call into the CUDA runtime goes through ASSAY_CUDA, which reports the call that failed and why.
#pragma once

#include <cuda_runtime_api.h>

namespace assay::cuda {

// Throws OutOfMemory; Unavailable if the driver is too old or the kernels were built for other GPUs; else
// std::runtime_error ("[cuda] cudaStreamCreate(&stream): invalid device (cudaErrorInvalidDevice)").
[[noreturn]] void fail(const char* call, cudaError_t status);

inline void check(const char* call, cudaError_t status) {
  if (status != cudaSuccess) fail(call, status);
}

}  // namespace assay::cuda

#define ASSAY_CUDA(call) ::assay::cuda::check(#call, call)
