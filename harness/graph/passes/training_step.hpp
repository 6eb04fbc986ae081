// Makes from a program the one graph that a kernel backend executes for a step. A program's dropout names the
// mask that it reads; a training step must also name the source of the mask.
#pragma once

#include <optional>

#include "harness/graph/graph.hpp"
#include "harness/graph/passes/all_reduce.hpp"
#include "harness/graph/passes/precision.hpp"
#include "harness/graph/program.hpp"

namespace assay {

// A copy in which a node "<mask>.drawn" (op dropout_mask) before the first reader draws each value of role
// mask. All readers read its result, which replaces the mask for the next step: so the mask of the last step
// can be read, and a supplied mask stays. Adds the feeds "schedule" and "seed"; a graph without masks is
// returned unchanged. Throws GraphError if two nodes with different rates read one mask.
Graph with_drawn_masks(const Graph& graph);

struct TrainingStepOptions {
  Precision precision = {};
  bool gradients_as_outputs = false;  // the check: outputs "gradient/<parameter>"
  bool network_outputs = false;  // the check: "logits", and all other outputs of the network next to the loss
  std::optional<BucketLimits> mean_over_ranks = {};  // each gradient becomes its mean over the ranks
};

// Forward, loss, backward and optimizer with the casts of the precision policy, and with the recomputation of
// the program's segments. With several ranks, gradients become their means before they are clipped and read by the
// optimizer (all_reduce.hpp); then throws GraphError if one of them is row-sparse. Always has the output "loss";
// the new parameters, moments and running statistics are updates. Feeds: the inputs and labels of the
// program, "schedule" f32 (2), and "seed" i32 (2) if the program has masks. For a single op: its results, and
// "gradient/<input>" for each of differentiated_inputs(); it has "schedule" and "seed" if it has masks, and
// ignores all options except the precision.
Graph training_step(const Program& program, const TrainingStepOptions& options);

// Only the forward pass in inference mode, with the casts of the policy. Output "logits" in f32 (f64 under
// fp64); for a single op its results, and the feeds of its masks as above.
Graph inference_step(const Program& program, const Precision& precision);

// The two graphs of task decode, with the casts of the policy: the prompt, and one token. The program must have
// `decoding`. Caches have the storage type of the policy. Output "logits" in f32 (f64 under fp64).
Graph prefill_step(const Program& program, const Precision& precision);
Graph token_step(const Program& program, const Precision& precision);

}  // namespace assay
