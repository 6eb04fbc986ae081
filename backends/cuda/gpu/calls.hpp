// The calls of mode primitives by cuDNN and the CUDA runtime.
#pragma once

#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <memory>

#include "backends/cuda/primitives/calls.hpp"

namespace assay::cuda {

// deterministic: only algorithms that give the same bits run by run. Borrows handle and stream.
std::unique_ptr<Calls> make_cudnn_calls(cudnnHandle_t handle, cudaStream_t stream, bool deterministic);

}  // namespace assay::cuda
