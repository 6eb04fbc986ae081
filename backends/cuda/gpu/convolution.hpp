// Convolutions by cuDNN's graph API.
#pragma once

#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <memory>

#include "backends/cuda/products.hpp"

namespace assay::cuda {

// Null where cuDNN has no engine for the convolution. Borrows handle and stream.
std::unique_ptr<Convolution> make_cudnn_convolution(const ConvolutionSpec& spec, cudnnHandle_t handle,
                                                    cudaStream_t stream);

}  // namespace assay::cuda
