// The LSTM by cuDNN's RNN functions.
#pragma once

#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <memory>

#include "backends/cuda/primitives/calls.hpp"
#include "backends/cuda/products.hpp"

namespace assay::cuda {

// Null where this cuDNN has no LSTM for the type: bf16 came with 9.13; of a bare spec it throws Unsupported.
// Borrows handle and stream; `calls` for the time of the call.
std::unique_ptr<Lstm> make_cudnn_lstm(const LstmSpec& spec, cudnnHandle_t handle, cudaStream_t stream,
                                      Calls& calls);

}  // namespace assay::cuda
