// Convolutions by cuDNN's graph API.
#pragma once

#include <memory>

#include "backends/cuda/gpu/planned_engine.hpp"
#include "backends/cuda/gpu/target.hpp"
#include "backends/cuda/products.hpp"
#include "harness/engine/memory.hpp"

namespace assay::cuda {

// The fastest of the first engines of cuDNN's heuristic, tried on buffers from `trial`: with bias and ReLU in
// cuDNN's graph or in a kernel after it, a gradient of another type directly or converted. An engine whose result
// differs from that of our own direct convolution by more than rounding is left out. If the spec asks for the same bits
// in each run, or memory for the trial is missing: the first engine. Null if cuDNN has no engine for the convolution
// that is right. For a bare spec: the first engine, bias included, or Unsupported is thrown.
std::unique_ptr<Convolution> make_cudnn_convolution(const ConvolutionSpec& spec, const Target& target,
                                                    Memory& trial);

// What make_cudnn_convolution() takes where nothing is measured.
PlannedEngine plan_convolution(const ConvolutionSpec& spec, const Target& target);

}  // namespace assay::cuda
