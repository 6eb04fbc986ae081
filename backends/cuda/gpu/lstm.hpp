// The LSTM by cuDNN's RNN functions, or by our own kernels where they are faster.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backends/cuda/gpu/target.hpp"
#include "backends/cuda/primitives/calls.hpp"
#include "backends/cuda/products.hpp"
#include "harness/engine/memory.hpp"

namespace assay::cuda {

// Our own LSTM, named as one that was measured; null where it would take a launch for each step.
using MakeLstm = std::function<std::unique_ptr<Lstm>()>;

// The fastest of cuDNN's algorithms and our own, tried on buffers from `trial`; cuDNN's standard one where the spec asks for
// the same bits in each run, or is bare. Null if this cuDNN has no LSTM for the type: bf16 needs 9.13. For a bare
// spec it throws Unsupported instead. Borrows the target; the others only during the call.
std::unique_ptr<Lstm> make_fast_lstm(const LstmSpec& spec, const Target& target, Memory& trial, Calls& calls,
                                     const MakeLstm& make_own);

// The forms of an LSTM whose description cuDNN accepts, the standard one first. Needs no device, and does not know
// what a device lacks.
std::vector<std::string> lstm_forms(const LstmSpec& spec);

}  // namespace assay::cuda
