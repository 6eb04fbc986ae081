// Attention as one graph for each pass, by cuDNN's graph API.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "backends/cuda/gpu/planned_engine.hpp"
#include "backends/cuda/gpu/target.hpp"
#include "backends/cuda/products.hpp"
#include "harness/engine/memory.hpp"

namespace assay::cuda {

// Our own kernels for a spec, with this name.
using MakeOwnAttention = std::function<std::shared_ptr<Attention>(const AttentionSpec&, std::string)>;

// The fastest of cuDNN's engines and of our own kernels, tried on buffers from `trial`; an engine whose results differ from those
// of our own kernels by more than rounding is left out. Without memory for that, the heuristic's choice: our own kernels need
// more of it if they are large. Null if the spec is no graph of cuDNN's, or if cuDNN has no engine: then our own kernels are to
// be taken.
std::shared_ptr<Attention> make_cudnn_attention(const AttentionSpec& spec, const Target& target,
                                                Memory& trial, const MakeOwnAttention& make_own);

// The first engine that can be built.
PlannedEngine plan_attention(const AttentionSpec& spec, const Target& target);

}  // namespace assay::cuda
