// Mistakes in the ops of transformers, and a small network over texts on which each shows.
#pragma once

#include <vector>

#include "harness/graph/program.hpp"
#include "tests/workloads/planted/planted_backend.hpp"

namespace assay {

const std::vector<Plant>& transformer_plants();

// One layer of a transformer over short texts, some of whose tokens are padding: post-norm, with positions, GELU
// with erf, the mean over the tokens. AdamW, and gradients that are clipped.
Program transformer_trap_program(std::int64_t batch);

}  // namespace assay
