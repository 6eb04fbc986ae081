// Reverse-mode differentiation as a graph-to-graph transform.
#pragma once

#include <map>
#include <vector>

#include "harness/graph/graph.hpp"

namespace assay {

// Adds the nodes of d loss / d v for each v of `with_respect_to` to `graph` and returns the gradients in that
// order. A value used more than once gets the sum of its gradients (op "add"). Throws GraphError when an op
// on the way has no gradient, or v does not reach the loss.
std::vector<ValueId> differentiate(Graph& graph, ValueId loss, const std::vector<ValueId>& with_respect_to);

}  // namespace assay
