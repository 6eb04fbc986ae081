// Every call into the CUDA runtime goes through ASSAY_CUDA, which reports the call that failed and why.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

namespace assay::cuda {

// Throws OutOfMemory; Unavailable if the driver is too old or the kernels were built for other GPUs; else
// std::runtime_error ("[cuda] cudaStreamCreate(&stream): invalid device (cudaErrorInvalidDevice)").
[[noreturn]] void fail(const char* call, cudaError_t status);

// "13.0" of 13000.
std::string cuda_version(int number);
// The newest CUDA that the driver has, the one that this program was built with, and the remedy, of
// cudaDriverGetVersion() and cudaRuntimeGetVersion().
std::string driver_too_old(int driver, int runtime);
// The text of an error, with the remedy where the driver is the cause.
std::string reason_of(cudaError_t status);

inline void check(const char* call, cudaError_t status) {
  if (status != cudaSuccess) fail(call, status);
}

}  // namespace assay::cuda

#define ASSAY_CUDA(call) ::assay::cuda::check(#call, call)
