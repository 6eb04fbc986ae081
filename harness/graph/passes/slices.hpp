// Batch norm by slices: how several ranks, each with its slice of the batch, normalise it.
#pragma once

#include "harness/graph/program.hpp"

namespace assay {

// A copy of the program in which each batch norm of the training graph normalises `slices` equal parts of its rows by
// their own statistics. The running statistics are those of the first slice. Names of values do not change. A
// program without batch norm is copied as it is. Throws GraphError if the rows of a batch norm cannot be divided.
Program with_slices(const Program& program, std::int64_t slices);

}  // namespace assay
