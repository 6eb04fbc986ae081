// Functions that cudnn-frontend names, for engines of its own which this backend does not ask for. None works here.
#include <cuda_runtime_api.h>
#include <nvrtc.h>

// Without an entry point of the driver, the frontend takes the context as it is.
cudaError_t cudaGetDriverEntryPointByVersion(const char*, void** function, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult* result) {
  *function = nullptr;
  if (result != nullptr) *result = cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}

cudaError_t cudaLibraryLoadData(cudaLibrary_t*, const void*, cudaJitOption*, void**, unsigned,
                                cudaLibraryOption*, void**, unsigned) {
  return cudaErrorNotSupported;
}
cudaError_t cudaLibraryUnload(cudaLibrary_t) { return cudaErrorNotSupported; }
cudaError_t cudaLibraryGetKernel(cudaKernel_t*, cudaLibrary_t, const char*) { return cudaErrorNotSupported; }
cudaError_t cudaKernelSetAttributeForDevice(cudaKernel_t, cudaFuncAttribute, int, int) {
  return cudaErrorNotSupported;
}
cudaError_t cudaLaunchKernel(const void*, dim3, dim3, void**, std::size_t, cudaStream_t) {
  return cudaErrorNotSupported;
}

// For a warm-up of plans that were read.
cudaError_t cudaMalloc(void**, std::size_t) { return cudaErrorNotSupported; }
cudaError_t cudaFree(void*) { return cudaErrorNotSupported; }
cudaError_t cudaStreamCreate(cudaStream_t*) { return cudaErrorNotSupported; }
cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus*) { return cudaErrorNotSupported; }

nvrtcResult nvrtcCreateProgram(nvrtcProgram*, const char*, const char*, int, const char* const*,
                               const char* const*) {
  return NVRTC_ERROR_INTERNAL_ERROR;
}
nvrtcResult nvrtcDestroyProgram(nvrtcProgram*) { return NVRTC_ERROR_INTERNAL_ERROR; }
nvrtcResult nvrtcCompileProgram(nvrtcProgram, int, const char* const*) { return NVRTC_ERROR_INTERNAL_ERROR; }
nvrtcResult nvrtcGetCUBINSize(nvrtcProgram, std::size_t*) { return NVRTC_ERROR_INTERNAL_ERROR; }
nvrtcResult nvrtcGetCUBIN(nvrtcProgram, char*) { return NVRTC_ERROR_INTERNAL_ERROR; }
nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram, std::size_t*) { return NVRTC_ERROR_INTERNAL_ERROR; }
nvrtcResult nvrtcGetProgramLog(nvrtcProgram, char*) { return NVRTC_ERROR_INTERNAL_ERROR; }
