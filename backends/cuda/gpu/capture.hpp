// Graphs of CUDA that are captured from a stream.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <memory>
#include <span>

#include "backends/cuda/device.hpp"

namespace assay::cuda {

// As Device::record().
std::unique_ptr<Recording> capture(cudaStream_t stream, std::span<const GraphPart> parts,
                                   std::size_t min_nodes);

// Seconds between what the stream did before and the end of what `enqueue` enqueues, by the device's clock. Synchronises.
double device_seconds(cudaStream_t stream, const std::function<void()>& enqueue);

}  // namespace assay::cuda
