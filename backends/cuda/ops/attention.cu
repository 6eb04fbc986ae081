// Attention and its gradient: what the device has for them.
#include <cassert>
#include <cmath>

#include "backends/cuda/lowering.hpp"

namespace assay::cuda {
namespace {

AttentionSpec attention_spec(const Request& request, AttentionSpec::Kind kind) {
  const Shape &q = request.in(0), &k = request.in(1);
  AttentionSpec spec;
  spec.kind = kind;
  spec.samples = q[0];
  spec.queries = q[1];
  spec.heads = q[2];
  spec.depth = q[3];
  spec.keys = k[1];
  spec.groups = k[2];
  spec.joined = request.node.attributes.has("heads");
  if (spec.joined) {
    const std::vector<ValueId>& inputs = request.node.inputs;
    assert(inputs[0] == inputs[1] && inputs[1] == inputs[2]);
    spec.heads = request.integer("heads");
    spec.groups = (k[2] - spec.heads) / 2;
  }
  if (request.has_input(3)) {
    const Shape& mask = request.in(3);
    spec.mask_samples = mask[0];
    spec.mask_heads = mask[1];
    spec.mask_queries = mask[2];
  }
  spec.causal = request.node.attributes.get<bool>("causal");
  spec.scale = request.number("scale");
  if (spec.scale == 0) spec.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(spec.depth)));
  spec.saved = kind == AttentionSpec::Kind::forward && request.has_output(1);
  spec.operands = request.inputs[0].dtype;
  spec.tf32 = request.context.tf32;
  spec.bare = request.context.bare;
  return spec;
}

AttentionOperands attention_operands(const Operands& at) {
  AttentionOperands operands;
  operands.q = at.inputs[0];
  operands.k = at.inputs[1];
  operands.v = at.inputs[2];
  operands.mask = at.in<float>(3);
  return operands;
}

// Operands q, k, v, mask; results y, logsumexp.
Lowered lower_attention(const Request& request) {
  Lowered lowered = draft(request, Layout::plain);
  const AttentionSpec spec = attention_spec(request, AttentionSpec::Kind::forward);
  const auto attention = request.context.device.attention(spec);
  lowered.scratch_bytes = attention->workspace_bytes();
  lowered.kernel = make_kernel(
      [=](const Operands& at) {
        AttentionOperands operands = attention_operands(at);
        operands.y = at.outputs[0];
        operands.logsumexp = at.out<float>(1);
        if (spec.joined) find_parts(spec, operands);
        attention->run(operands, at.scratch);
      },
      attention->name());
  return lowered;
}

// Operands q, k, v, mask, y, logsumexp, dy; results dq, dk, dv.
Lowered lower_attention_gradient(const Request& request) {
  Lowered lowered = draft(request, Layout::plain);
  const AttentionSpec spec = attention_spec(request, AttentionSpec::Kind::gradient);
  const auto attention = request.context.device.attention(spec);
  lowered.scratch_bytes = attention->workspace_bytes();
  lowered.kernel = make_kernel(
      [=](const Operands& at) {
        AttentionOperands operands = attention_operands(at);
        operands.y = at.inputs[4];
        operands.logsumexp = static_cast<float*>(at.inputs[5]);
        operands.dy = at.inputs[6];
        operands.dq = at.outputs[0];
        operands.dk = at.outputs[1];
        operands.dv = at.outputs[2];
        if (spec.joined) find_parts(spec, operands);
        attention->run(operands, at.scratch);
      },
      attention->name());
  return lowered;
}

}  // namespace

std::span<const OpEntry> attention_ops() {
  static constexpr std::array entries{OpEntry{"attention", lower_attention},
                                      OpEntry{"attention_gradient", lower_attention_gradient}};
  return entries;
}

}  // namespace assay::cuda
