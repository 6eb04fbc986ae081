// Program -> the one graph that a kernel backend executes for a step. Dropout in a program names the mask that it
// reads; a training step must also name where the mask comes from.
#pragma once

#include "harness/graph/graph.hpp"
#include "harness/graph/passes/precision.hpp"
#include "harness/graph/program.hpp"

namespace assay {

// A copy in which every value of role mask is drawn in front of its first reader by a node "<mask>.drawn" (op
// dropout_mask), whose result all readers read and which replaces the mask for the next step: so the mask of
// the last step can be read, and one that is supplied stays. Feeds "schedule" and "seed" are added; a graph
// without masks comes back as it is. Throws GraphError when two nodes with unlike rates read one mask.
Graph with_drawn_masks(const Graph& graph);

struct TrainingStepOptions {
  Precision precision = {};
  bool gradients_as_outputs = false;  // the check: outputs "gradient/<parameter>"
  bool network_outputs = false;       // the check: "logits", and what else the network gives beside the loss
};

// Forward, loss, backward and optimizer with the casts of the precision policy. The output "loss" is always
// there; the new parameters, moments and running statistics are updates. Feeds: the inputs and labels of the
// program, "schedule" f32 (2), and "seed" i32 (2) where the program has masks (drawn_masks.hpp).
// Of a single op: its results, and "gradient/<input>" for each of differentiated_inputs(); "schedule" and
// "seed" are there where it has masks, and the options but for the precision say nothing.
Graph training_step(const Program& program, const TrainingStepOptions& options);

// Forward alone in inference mode with the casts of the policy; output "logits" in f32 (f64 under fp64), of a
// single op its results, and the feeds of its masks as above.
Graph inference_step(const Program& program, const Precision& precision);

}  // namespace assay
