// The reference's kernels, where rows of a tensor are views of it.
#pragma once

#include "tests/unit/engine/forwarding_library.hpp"

namespace assay::testing {

class SlicingLibrary : public ForwardingLibrary {
 public:
  using ForwardingLibrary::ForwardingLibrary;

  Lowered lower(const Graph& graph, NodeId id, const Offer& offer) override {
    Lowered lowered = ForwardingLibrary::lower(graph, id, offer);
    const Node& node = graph.node(id);
    if (node.op->name() != "slice" || node.attributes.get<std::int64_t>("axis") != 0) return lowered;
    const TensorType& x = graph.value(node.inputs[0]).type;
    lowered.view = true;
    lowered.first_byte = node.attributes.get<std::int64_t>("begin") * x.bytes() / x.shape[0];
    return lowered;
  }
};

}  // namespace assay::testing
