// Keeps an exam clear of the kinks of ReLUs. An element within rounding of zero may be on either side in two honest
// backends, and then whole gradients differ by far more than rounding.
#pragma once

#include <vector>

#include "harness/graph/program.hpp"
#include "harness/worker/backend.hpp"
#include "harness/worker/exam.hpp"

namespace assay {

// Moves biases of feeds.state, each by little more than the rounding of what it is added to, until no element that a
// ReLU reads in the first step is within rounding of zero; what cannot be cleared (a ReLU behind no bias) stays. Gives
// the tensors that it moved, F32. `options` are the oracle's, `emulated` the precision whose rounding counts. Runs the
// forward pass once for each ReLU that has such elements.
std::vector<HostTensor> sharpen(ExamFeeds& feeds, Backend& backend, const Program& program,
                                CompileOptions options, const Precision& emulated);

}  // namespace assay
