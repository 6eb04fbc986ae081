// Matrix products by cuBLASLt.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <memory>

#include "backends/cuda/products.hpp"

namespace assay::cuda {

// Null if cuBLASLt has no algorithm for the product. Borrows handle and stream.
std::unique_ptr<Matmul> make_lt_matmul(const MatmulSpec& spec, cublasLtHandle_t handle, cudaStream_t stream);

}  // namespace assay::cuda
