// The other ranks of a cell, each with a GPU of its own, through NCCL.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <string>

namespace assay::cuda {

// All ranks make the same calls in the same order. Used from one thread. Throws std::runtime_error with NCCL's text.
class Nccl {
 public:
  virtual ~Nccl() = default;
  virtual int world() const = 0;
  virtual std::string version() const = 0;  // "2.30.7"

  // Both enqueue on the stream, also while it is captured. sum(): replaces the values by their sums over all ranks, with
  // the same bits on each. broadcast(): replaces the value by that of rank 0.
  virtual void sum(float* values, std::int64_t count, cudaStream_t stream) = 0;
  virtual void broadcast(std::int64_t* value, cudaStream_t stream) = 0;
};

// Meets the other ranks at NCCL_COMM_ID, which is MASTER_ADDR:MASTER_PORT if it is not set, with this process's first
// GPU. Throws Unavailable if NCCL is missing, here or when this was built.
std::shared_ptr<Nccl> join_nccl(int rank, int world);

}  // namespace assay::cuda
