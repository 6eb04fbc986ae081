// The LSTM by cuDNN's RNN functions.
#pragma once

#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <memory>

#include "backends/cuda/products.hpp"

namespace assay::cuda {

// Null if this cuDNN has no LSTM for the type: bf16 needs 9.13. Borrows handle and stream.
std::unique_ptr<Lstm> make_cudnn_lstm(const LstmSpec& spec, cudnnHandle_t handle, cudaStream_t stream);

}  // namespace assay::cuda
