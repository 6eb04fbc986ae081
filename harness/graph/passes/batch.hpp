// A program for another number of samples.
#pragma once

#include <cstdint>

#include "harness/graph/program.hpp"

namespace assay {

// Samples of a batch: the outermost dimension of the inputs; 1 for a single op. Throws GraphError without one.
std::int64_t batch_of(const Program& program);

// With `batch` rows of inputs, labels, masks and caches, and every other shape inferred again; names do not change.
// Throws GraphError if an op has the batch in its attributes.
Graph with_batch(const Graph& graph, std::int64_t batch);
Program with_batch(const Program& program, std::int64_t batch);

}  // namespace assay
