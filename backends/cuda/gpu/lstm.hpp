// The LSTM by cuDNN's RNN functions.
#pragma once

#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <memory>

#include "backends/cuda/primitives/calls.hpp"
#include "backends/cuda/products.hpp"

namespace assay::cuda {

// Null if this cuDNN has no LSTM for the type: bf16 needs 9.13. For a bare spec it throws Unsupported
// instead. Borrows handle and stream; `calls` only during the call.
std::unique_ptr<Lstm> make_cudnn_lstm(const LstmSpec& spec, cudnnHandle_t handle, cudaStream_t stream,
                                      Calls& calls);

}  // namespace assay::cuda
