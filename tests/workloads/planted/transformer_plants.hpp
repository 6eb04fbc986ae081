// Mistakes in the kernels of transformers' ops.
#pragma once

#include <vector>

#include "tests/workloads/planted/planted_backend.hpp"

namespace assay {

// Of the layer norms of transformer_trap_program(); so large that its place shows.
constexpr double trap_epsilon = 1e-3;

const std::vector<Plant>& transformer_plants();

}  // namespace assay
