// Keeps an exam away from the kinks of ReLUs. An element within rounding of zero may be on either side in two
// correct backends, and then whole gradients differ by far more than rounding.
#pragma once

#include <vector>

#include "harness/graph/program.hpp"
#include "harness/worker/backend.hpp"
#include "harness/worker/exam.hpp"

namespace assay {

// Moves biases of feeds.state until every element that a ReLU reads in the first step is further than
// rounding from zero. Each bias moves by little more than the rounding of the values that it is added to.
// Elements that cannot be cleared (a ReLU without a bias before it) stay. Returns the moved tensors, F32.
// `options` are the oracle's, `emulated` is the precision whose rounding counts. Runs the forward pass once
// for each ReLU that has such elements.
std::vector<HostTensor> sharpen(ExamFeeds& feeds, Backend& backend, const Program& program,
                                CompileOptions options, const Precision& emulated);

}  // namespace assay
