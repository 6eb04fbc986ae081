// All steps of an LSTM in one launch, for bf16 and few units: what is left of an LSTM are products over all steps at once.
#pragma once

#include "backends/cuda/kernels/launch.hpp"
#include "backends/cuda/kernels/portable.hpp"
#include "backends/cuda/products.hpp"

namespace assay::cuda {

// Whether the weights of this LSTM fit into the registers of a block.
bool has_lstm_steps(const LstmSpec& spec);

struct LstmSteps {
  std::int64_t samples = 0, steps = 0, units = 0;
  bool last = false;  // y and dy have only the last step
};

// Row (n, t) of all is at n * steps + t. gates (4H) is x times the weights, and becomes the gates behind sigmoid and tanh; cells (H);
// h_before (H) is the state before each step. recurrent (4H, H), bias (4H), y (H).
void lstm_steps(Stream stream, const LstmSteps& steps, const Bf16* recurrent, const float* bias, float* gates,
                float* cells, Bf16* h_before, Bf16* y);
// dgates (4H): the gradients of the gates before sigmoid and tanh, from gates and cells of the forward pass.
void lstm_steps_gradient(Stream stream, const LstmSteps& steps, const Bf16* recurrent, const float* gates,
                         const float* cells, const Bf16* dy, Bf16* dgates);

}  // namespace assay::cuda
