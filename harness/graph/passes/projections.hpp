// The projections of an attention's queries, keys and values as one product.
#pragma once

#include <string_view>

#include "harness/graph/attributes.hpp"
#include "harness/graph/graph.hpp"

namespace assay {

// Where three linear layers of one x are only read as q, k and v of attentions with as many heads, they become one: its
// weight and its bias are the rows of theirs, one after the other, and the attentions get the attribute heads. In a step of
// training, their gradients are one product each, too: those of the three weights are slices of it. Works on a whole step, after
// differentiation and the precision pass.
Graph join_projections(const Graph& graph);

// The attribute of such a node that only join_projections() writes; empty for every other node.
std::string_view attribute_of_joined(const Op& op, const Attributes& attributes);

}  // namespace assay
