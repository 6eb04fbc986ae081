// The LSTM by cuDNN's RNN functions.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backends/cuda/gpu/target.hpp"
#include "backends/cuda/primitives/calls.hpp"
#include "backends/cuda/products.hpp"
#include "harness/engine/memory.hpp"

namespace assay::cuda {

// The fastest of cuDNN's algorithms, tried on buffers from `trial`; the standard one where the spec asks for the
// same bits in each run, or is bare. Null if this cuDNN has no LSTM for the type: bf16 needs 9.13. For a bare
// spec it throws Unsupported instead. Borrows the target; `calls` and `trial` only during the call.
std::unique_ptr<Lstm> make_cudnn_lstm(const LstmSpec& spec, const Target& target, Memory& trial,
                                      Calls& calls);

// The forms of an LSTM whose description cuDNN accepts, the standard one first. Needs no device, and does not know
// what a device lacks.
std::vector<std::string> lstm_forms(const LstmSpec& spec);

}  // namespace assay::cuda
