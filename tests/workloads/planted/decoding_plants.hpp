// Mistakes in the caches of task decode.
#pragma once

#include <vector>

#include "tests/workloads/planted/planted_backend.hpp"

namespace assay {

const std::vector<Plant>& decoding_plants();

}  // namespace assay
