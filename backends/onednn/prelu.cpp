// ReLU with a slope for each channel, by oneDNN, in the format of its operand.
#include <array>
#include <memory>
#include <vector>

#include "backends/onednn/lowering.hpp"

namespace assay::onednn {
namespace {

// x as an image in the format that it has, or row-major as (N, C, rest), whatever its rank.
std::vector<Desc> prelu_candidates(const Request& request) {
  const TensorType& x = request.inputs[0];
  if (x.shape.size() == 4) return {layout_of(dense_format(request, 0)).desc, row_major(x)};
  return {row_major({x.dtype, {x.shape[0], x.shape[1], x.elements() / x.shape[0] / x.shape[1]}})};
}

Desc slopes_as(const Request& request, const Desc& x) {
  Shape shape(static_cast<std::size_t>(x.get_ndims()), 1);
  shape[1] = request.inputs[1].shape[0];
  return row_major({DType::f32, shape});
}

dnnl::prelu_forward::primitive_desc prelu_of(const Request& request, const Desc& x) {
  return ASSAY_ONEDNN(dnnl::prelu_forward::primitive_desc(request.context.engine,
                                                          dnnl::prop_kind::forward_training, x,
                                                          slopes_as(request, x), x, attributes(), true));
}

// The format of an operand like x: as an image, or its own rank in row-major order.
Format prelu_format(const Request& request, const Desc& x) {
  return request.inputs[0].shape.size() == 4 ? to_format(x) : to_format(row_major(request.inputs[0]));
}

Lowered lower_prelu(const Request& request) {
  const auto chosen =
      choose(request.node, prelu_candidates(request), [&](const Desc& x) { return prelu_of(request, x); });
  const Desc x = chosen.src_desc();
  Lowered lowered = draft(request);
  lowered.inputs[0] = lowered.outputs[0] = prelu_format(request, x);
  lowered.inputs[1] = to_format(row_major(request.inputs[1]));
  lowered.in_place = {{0, 0}};
  auto kernel = std::make_unique<PrimitiveKernel>(request.context, ASSAY_ONEDNN(dnnl::prelu_forward(chosen)));
  kernel->input(DNNL_ARG_SRC, x, 0).input(DNNL_ARG_WEIGHTS, slopes_as(request, x), 1);
  kernel->output(DNNL_ARG_DST, x, 0);
  finish(lowered, std::move(kernel), chosen.scratchpad_desc());
  return lowered;
}

Lowered lower_prelu_gradient(const Request& request) {
  const auto chosen = choose(request.node, prelu_candidates(request), [&](const Desc& x) {
    const Desc slopes = slopes_as(request, x);
    return ASSAY_ONEDNN(dnnl::prelu_backward::primitive_desc(request.context.engine, x, slopes, x, slopes, x,
                                                             prelu_of(request, x), attributes(), true));
  });
  const Desc x = chosen.src_desc(), slopes = slopes_as(request, x);
  Lowered lowered = draft(request);
  lowered.inputs[0] = lowered.inputs[2] = lowered.outputs[0] = prelu_format(request, x);
  lowered.inputs[1] = lowered.outputs[1] = to_format(row_major(request.inputs[1]));
  auto kernel =
      std::make_unique<PrimitiveKernel>(request.context, ASSAY_ONEDNN(dnnl::prelu_backward(chosen)));
  kernel->input(DNNL_ARG_SRC, x, 0).input(DNNL_ARG_WEIGHTS, slopes, 1).input(DNNL_ARG_DIFF_DST, x, 2);
  kernel->output(DNNL_ARG_DIFF_SRC, x, 0).output(DNNL_ARG_DIFF_WEIGHTS, slopes, 1);
  finish(lowered, std::move(kernel), chosen.scratchpad_desc());
  return lowered;
}

}  // namespace

std::span<const OpEntry> prelu_ops() {
  static constexpr std::array entries{OpEntry{"prelu", lower_prelu, true},
                                      OpEntry{"prelu_gradient", lower_prelu_gradient, true}};
  return entries;
}

}  // namespace assay::onednn
