// Graphs of CUDA that are captured from a stream.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <span>

#include "backends/cuda/device.hpp"

namespace assay::cuda {

// As Device::record().
std::unique_ptr<Recording> capture(cudaStream_t stream, std::span<const GraphPart> parts,
                                   std::size_t min_nodes);

}  // namespace assay::cuda
