// Dropout in a program says which mask it reads; a training step must also say where the mask comes from.
#pragma once

#include "harness/graph/graph.hpp"

namespace assay {

// A copy in which every value of role mask is drawn in front of its first reader by a node "<mask>.drawn" (op
// dropout_mask), whose result all readers read and which replaces the mask for the next step: so the mask of
// the last step can be read, and one that is supplied stays. Feeds "schedule" and "seed" are added; a graph
// without masks comes back as it is. Throws GraphError when two nodes with unlike rates read one mask.
Graph with_drawn_masks(const Graph& graph);

}  // namespace assay
