// Activations that cuDNN has in its graph API only.
#pragma once

#include <cudnn.h>

#include <memory>

#include "backends/cuda/gpu/target.hpp"
#include "backends/cuda/primitives/calls.hpp"

namespace cudnn_frontend::graph {
class Graph;
}

namespace assay::cuda {

// softplus or softsign, from x; or its gradient, from x and dy; `spec` is dense. Throws Unsupported where cuDNN
// has no engine. Borrows the handle.
Call make_pointwise_graph(cudnnHandle_t handle, Activation kind, bool gradient, const TensorSpec& spec);
// Its engine only, also for a GPU that is not here.
std::shared_ptr<cudnn_frontend::graph::Graph> plan_pointwise_graph(Activation kind, bool gradient,
                                                                   const TensorSpec& spec,
                                                                   const Target& target);

}  // namespace assay::cuda
