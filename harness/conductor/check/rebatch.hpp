// The same program for another number of samples a batch.
#pragma once

#include <cstdint>

#include "harness/graph/program.hpp"

namespace assay {

// Samples of a batch: the outermost dimension of the inputs. Throws GraphError when the program has none.
std::int64_t batch_of(const Program& program);

// Inputs and labels with `batch` rows, every other shape inferred again; names stay. Throws GraphError when
// an op has the batch written into its attributes.
Program with_batch(const Program& program, std::int64_t batch);

}  // namespace assay
