// A small transformer on which mistakes show, and programs with a mistake.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "harness/graph/program.hpp"

namespace assay {

// Of the layer norms of transformer_trap_program(); so large that its place shows.
constexpr double trap_epsilon = 1e-3;

// What a network computes. All have the same parameters.
struct TransformerForm {
  bool masked = true;  // padding is hidden from attention and from the mean
  bool causal = false;
  std::int64_t ahead = 0;     // the causal mask is moved: 1, a token sees the next one; -1, not itself
  double scale = 0;           // of attention; 0: 1 / sqrt(width of a head)
  bool over_queries = false;  // the softmax; only without a mask
  bool biases = true;         // of linear layers
};

// One layer of a transformer over short texts, some of whose tokens are padding: post-norm, with positions, GELU
// with erf, the mean over the tokens. AdamW, and gradients that are clipped.
Program transformer_trap_program(std::int64_t batch, const TransformerForm& form = {});

// A mistake that a backend makes if it computes another program than it was given: it does not depend on the
// kernels, nor on the types of their operands.
struct WrongProgram {
  std::string_view name;
  std::string_view what;  // in words
  TransformerForm right, wrong;
};

const std::vector<WrongProgram>& wrong_programs();

}  // namespace assay
