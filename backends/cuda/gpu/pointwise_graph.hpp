// Activations that cuDNN has in its graph API only.
#pragma once

#include <cudnn.h>

#include "backends/cuda/primitives/calls.hpp"

namespace assay::cuda {

// softplus or softsign, from x; or its gradient, from x and dy. Throws Unsupported where cuDNN has no engine.
// Borrows the handle.
Call make_pointwise_graph(cudnnHandle_t handle, Activation kind, bool gradient, const TensorSpec& spec);

}  // namespace assay::cuda
