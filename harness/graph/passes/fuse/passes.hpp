// The fusions, each a pass of its own over a whole step. What each does is in harness/graph/passes/fuse.hpp.
#pragma once

#include <set>
#include <string>

#include "harness/graph/graph.hpp"

namespace assay {

Graph fuse_activations(const Graph& graph, const std::set<std::string>& ops);
Graph fuse_masks(const Graph& graph, const std::set<std::string>& ops);
Graph fuse_norm_residuals(const Graph& graph);
Graph fuse_norm_gradients(const Graph& graph);
Graph group_optimizers(const Graph& graph);

}  // namespace assay
