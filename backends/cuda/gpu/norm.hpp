// Batch normalisation in one kernel for each pass, by cuDNN's graph API.
#pragma once

#include <memory>

#include "backends/cuda/gpu/planned_engine.hpp"
#include "backends/cuda/gpu/target.hpp"
#include "backends/cuda/products.hpp"
#include "harness/engine/memory.hpp"

namespace assay::cuda {

// The fastest of cuDNN's engines and of our own kernels, tried on buffers from `trial`; an engine whose results differ from those
// of our own kernels by more than rounding, or whose mask is not that of its y, is left out. Null without a search, which
// nobody makes if the spec asks for the same bits in each run, if cuDNN has no engine, or without memory: then our own kernels
// are to be taken.
std::shared_ptr<Norm> make_cudnn_norm(const NormSpec& spec, const Target& target, Memory& trial);

// The first engine that can be built.
PlannedEngine plan_norm(const NormSpec& spec, const Target& target);

}  // namespace assay::cuda
