// Reverse-mode differentiation as a graph-to-graph transform.
#pragma once

#include <utility>
#include <vector>

#include "harness/graph/graph.hpp"

namespace assay {

// Adds the nodes of d loss / d v for each v of `with_respect_to` to `graph` and returns the gradients in that
// order. A value that is used more than once gets the sum of its gradients (op "add"). Throws GraphError if
// an op on the way has no gradient, or v does not reach the loss.
std::vector<ValueId> differentiate(Graph& graph, ValueId loss, const std::vector<ValueId>& with_respect_to);

// The same from given gradients: pairs of a value and the value that holds its gradient, of the same type;
// each value occurs once. Also throws GraphError if a type differs.
std::vector<ValueId> differentiate(Graph& graph, const std::vector<std::pair<ValueId, ValueId>>& given,
                                   const std::vector<ValueId>& with_respect_to);

}  // namespace assay
