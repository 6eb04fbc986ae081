// Convolutions by cuDNN's graph API.
#pragma once

#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <memory>

#include "backends/cuda/products.hpp"
#include "harness/engine/memory.hpp"

namespace assay::cuda {

// The quickest of the engines that cuDNN's heuristic names first, tried on buffers from `trial`; where the
// spec asks for the same bits run by run, or there is no room to try, the first of them. Null where cuDNN has
// no engine for the convolution. Of a bare spec the first engine is taken, bias included; it throws Unsupported where
// there is none. Borrows handle and stream.
std::unique_ptr<Convolution> make_cudnn_convolution(const ConvolutionSpec& spec, cudnnHandle_t handle,
                                                    cudaStream_t stream, Memory& trial);

}  // namespace assay::cuda
