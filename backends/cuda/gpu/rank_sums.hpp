// RankSums on a GPU: a stream for the exchange, and the events by which it and the device's stream wait for each other.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "backends/cuda/device.hpp"
#include "backends/cuda/gpu/nccl.hpp"

namespace assay::cuda {

// Borrows the device's stream and its memory.
std::unique_ptr<RankSums> make_rank_sums(std::shared_ptr<Nccl> nccl, cudaStream_t stream, Memory& memory);

}  // namespace assay::cuda
