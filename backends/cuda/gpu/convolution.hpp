// Convolutions by cuDNN's graph API.
#pragma once

#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <memory>

#include "backends/cuda/products.hpp"
#include "harness/engine/memory.hpp"

namespace assay::cuda {

// The fastest of the first engines of cuDNN's heuristic, tried on buffers from `trial`. If the spec asks for
// the same bits in each run, or there is no memory for the trial: the first engine. Null if cuDNN has no
// engine for the convolution. Borrows handle and stream.
std::unique_ptr<Convolution> make_cudnn_convolution(const ConvolutionSpec& spec, cudnnHandle_t handle,
                                                    cudaStream_t stream, Memory& trial);

}  // namespace assay::cuda
