// Answers of the worker and of the oracle that compute nothing, for the cell folder that is the working directory.
#pragma once

#include <vector>

#include "harness/core/tensor.hpp"

namespace assay::faults {

// Zeros, to an exam of task infer.
std::vector<HostTensor> zero_answers();

// The same with bounds. Task train: only what shows how sharp an exam is, gradients of 1 with their bounds. The bounds
// of the first exam that is drawn (in a folder 0) are loose.
std::vector<HostTensor> oracle_answers();

}  // namespace assay::faults
