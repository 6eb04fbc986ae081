// What a step of a cell does at the least, counted on its graph.
#pragma once

#include "harness/conductor/config/cell.hpp"

namespace assay {

// FLOPs of all nodes of the step (forward; for task train with loss, backward and update), as
// docs/operators.md and `assay inspect` count them. Bytes of a single op alone: its operands once and its
// results once, as the graph stores them; 0 for a network, and for an op that may move nothing. The peaks are
// left 0. Throws GraphError.
Work work_of(const Cell& cell);

}  // namespace assay
