// Matrix products by cuBLASLt.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <memory>

#include "backends/cuda/products.hpp"

namespace assay::cuda {

// Throws OutOfMemory, Unsupported, std::runtime_error for other failures.
void check_cublas(const char* call, cublasStatus_t status);
// Whether cuBLASLt's heuristic found an algorithm. Throws as check_cublas(), except for "not supported".
bool has_algorithm(cublasStatus_t status, int found);

// Null if cuBLASLt has no algorithm for the product. Borrows handle and stream.
std::unique_ptr<Matmul> make_lt_matmul(const MatmulSpec& spec, cublasLtHandle_t handle, cudaStream_t stream);

}  // namespace assay::cuda
