// Where the vendor's engines run, and how long they take there.
#pragma once

#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <functional>
#include <memory>

namespace cudnn_frontend {
class DeviceProperties;
}

namespace assay::cuda {

class Choices;

// A GPU; or, with properties, one that is not here: then nothing can run, and the other members are not used.
// Borrows all.
struct Target {
  cudnnHandle_t handle = nullptr;
  cudaStream_t stream = nullptr;
  Choices* choices = nullptr;  // what earlier searches took, and engines that are wrong
  std::shared_ptr<const cudnn_frontend::DeviceProperties> properties = {};
  int architecture = 0;  // 90 for compute capability 9.0
};

// Seconds of one call of `enqueue`: the least of a few launches of a captured graph with `calls` of them, as in
// mode graph, where the host's time for a launch does not count. Synchronises.
double captured_seconds(const Target& target, const std::function<void()>& enqueue, int calls);

}  // namespace assay::cuda
