// Matrix products by cuBLASLt.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <memory>
#include <optional>

#include "backends/cuda/gpu/target.hpp"
#include "backends/cuda/products.hpp"
#include "harness/engine/memory.hpp"

namespace assay::cuda {

// Throws OutOfMemory, Unsupported, std::runtime_error for other failures.
void check_cublas(const char* call, cublasStatus_t status);
// Whether cuBLASLt's heuristic found an algorithm. Throws as check_cublas(), except for "not supported".
bool has_algorithm(cublasStatus_t status, int found);

// Describes the product to cuBLASLt, which needs no device. Throws std::runtime_error if it refuses an attribute.
void describe_product(const MatmulSpec& spec);

struct LtAlgorithm {
  std::optional<cublasLtMatmulHeuristicResult_t> result = {};  // with its workspace; empty: none is known yet
  bool measured = false;                                       // it was the fastest of those that are right
  bool all_are_wrong = false;                                  // no other search would find one
};

// Null if cuBLASLt has no algorithm for the product, or only wrong ones. `algorithm`, if none is known, becomes the
// one that is taken: the fastest of the heuristic's first ones, tried on buffers from `trial`, or without `trial` its
// first. Borrows handle and the target's stream; the rest of the target and `trial` only during the call.
std::unique_ptr<Matmul> make_lt_matmul(const MatmulSpec& spec, cublasLtHandle_t handle, const Target& target,
                                       Memory* trial, LtAlgorithm& algorithm);

}  // namespace assay::cuda
