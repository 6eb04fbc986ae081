#include "harness/graph/passes/fuse.hpp"

#include "harness/graph/passes/fuse/passes.hpp"

namespace assay {

Graph fuse(const Graph& graph, const FusionRules& rules) {
  Graph fused = fuse_activations(graph, rules.activation);
  if (rules.norm_residual) fused = fuse_norm_residuals(fused);
  if (rules.norm_gradient) fused = fuse_norm_gradients(fused);
  fused = fuse_masks(fused, rules.mask);
  return rules.grouped_optimizer ? group_optimizers(fused) : fused;
}

}  // namespace assay
