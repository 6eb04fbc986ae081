// Recomputation: the backward pass computes activations again that a step does not keep.
//
// A segment is a run of consecutive forward nodes. Its results that nodes after it read are kept,
// and so are outputs, updates and vectors such as batch statistics. All other results are computed again from
// what is kept when the backward pass first reads one. Nodes outside of segments keep their results. That is
// what torch.utils.checkpoint and jax.checkpoint do with the same segments.
#pragma once

#include <string_view>
#include <vector>

#include "harness/graph/program.hpp"

namespace assay {

// The segments of a forward graph for a policy of the axis recompute.
//
//   none
//   mirror  cheap ops until the next product, which is the last node of the segment, so that only cheap ones are
//           computed again, as in MXNet's documents; an LSTM and an attention, which save more than their
//           result, are outside
//   sqrt    about as many segments as the root of the number of nodes, with activations of about equal size
//           (Chen et al. 2016, "Training deep nets with sublinear memory cost"); a segment ends where the
//           fewest bytes cross its end. The last nodes, whose backward pass begins at once, are outside
//
// Throws std::invalid_argument for another policy.
std::vector<Segment> recompute_segments(const Graph& forward, std::string_view policy);

// A copy of a training step in which nodes "<node>.again" compute what is not kept. `step` has the nodes of
// `forward`, and after them those of the backward pass and of the update.
Graph with_recomputation(const Graph& step, const Graph& forward, const std::vector<Segment>& segments);

}  // namespace assay
