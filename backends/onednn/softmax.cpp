// Softmax over the last dimension, and its gradient.
#include "backends/onednn/lowering.hpp"

namespace assay::onednn {
namespace {

dnnl::softmax_forward::primitive_desc forward(const Request& request, const Desc& desc) {
  return ASSAY_ONEDNN(dnnl::softmax_forward::primitive_desc(
      request.context.engine, dnnl::prop_kind::forward_training, dnnl::algorithm::softmax_accurate, desc,
      desc, desc.get_ndims() - 1, attributes()));
}

Lowered lower_softmax(const Request& request) {
  const Desc desc = row_major(request.inputs[0]);
  const auto chosen = forward(request, desc);
  Lowered lowered = draft(request);
  lowered.inputs[0] = lowered.outputs[0] = to_format(desc);
  lowered.in_place = {{0, 0}};
  auto kernel =
      std::make_unique<PrimitiveKernel>(request.context, ASSAY_ONEDNN(dnnl::softmax_forward(chosen)));
  kernel->input(DNNL_ARG_SRC, desc, 0).output(DNNL_ARG_DST, desc, 0);
  finish(lowered, std::move(kernel), chosen.scratchpad_desc());
  return lowered;
}

// Operands y, dy.
Lowered lower_softmax_gradient(const Request& request) {
  const Desc desc = row_major(request.inputs[0]);
  const auto chosen = ASSAY_ONEDNN(dnnl::softmax_backward::primitive_desc(
      request.context.engine, dnnl::algorithm::softmax_accurate, desc, desc, desc, desc.get_ndims() - 1,
      forward(request, desc), attributes()));
  Lowered lowered = draft(request);
  lowered.inputs[0] = lowered.inputs[1] = lowered.outputs[0] = to_format(desc);
  lowered.in_place = {{0, 1}};
  auto kernel =
      std::make_unique<PrimitiveKernel>(request.context, ASSAY_ONEDNN(dnnl::softmax_backward(chosen)));
  kernel->input(DNNL_ARG_DST, desc, 0).input(DNNL_ARG_DIFF_DST, desc, 1).output(DNNL_ARG_DIFF_SRC, desc, 0);
  finish(lowered, std::move(kernel), chosen.scratchpad_desc());
  return lowered;
}

}  // namespace

std::span<const OpEntry> softmax_ops() {
  static constexpr std::array entries{OpEntry{"softmax", lower_softmax, true},
                                      OpEntry{"softmax_gradient", lower_softmax_gradient, true}};
  return entries;
}

}  // namespace assay::onednn
