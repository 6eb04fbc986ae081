// The fully connected layer. A flattened image keeps its order in memory: these kernels see a plain matrix,
// and the weights are kept in the same order of features.
#include "backends/onednn/masked_kernel.hpp"

namespace assay::onednn {
namespace {

std::vector<Desc> weight_candidates(const Request& request, const TensorType& weight, const Desc& offered) {
  if (request.offer.plain) return {row_major(weight)};
  if (offered.is_zero()) return {any_of(weight), row_major(weight)};
  return {offered, any_of(weight), row_major(weight)};
}

dnnl::inner_product_forward::primitive_desc forward(const Request& request, const TensorType& x,
                                                    const Desc& weight, const Desc& bias, const TensorType& y,
                                                    bool relu) {
  return ASSAY_ONEDNN(dnnl::inner_product_forward::primitive_desc(
      request.context.engine, dnnl::prop_kind::forward_training, row_major(x), weight, bias, row_major(y),
      attributes(relu), true));
}

// The order of features of the operand's offered format; row-major if none is offered.
Image features(const Request& request, std::size_t input) {
  return request.offer.plain ? Image{} : request.input_image(input);
}

// The offered weight, if its features have this order.
Desc same_features(const Image& wanted, const Desc& offered, const Image& image) {
  return image == wanted ? offered : Desc();
}

Lowered lower_forward(const Request& request) {
  const Image image = features(request, 0);
  const Desc bias = request.has_input(2) ? row_major(request.inputs[2]) : Desc();
  const Desc offered = same_features(image, request.input_desc(1), request.input_image(1));
  const auto chosen =
      choose(request.node, weight_candidates(request, request.inputs[1], offered), [&](const Desc& weight) {
        return forward(request, request.inputs[0], weight, bias, request.outputs[0], request.relu());
      });
  Lowered lowered = draft(request);
  lowered.inputs[0] = to_format(chosen.src_desc(), image);
  lowered.inputs[1] = to_format(chosen.weights_desc(), image);
  if (request.has_input(2)) lowered.inputs[2] = to_format(bias);
  lowered.outputs[0] = to_format(chosen.dst_desc());
  auto kernel =
      std::make_unique<PrimitiveKernel>(request.context, ASSAY_ONEDNN(dnnl::inner_product_forward(chosen)));
  kernel->input(DNNL_ARG_SRC, chosen.src_desc(), 0).input(DNNL_ARG_WEIGHTS, chosen.weights_desc(), 1);
  kernel->input(DNNL_ARG_BIAS, bias, 2).output(DNNL_ARG_DST, chosen.dst_desc(), 0);
  finish(lowered, std::move(kernel), chosen.scratchpad_desc());
  return lowered;
}

Lowered lower_input_gradient(const Request& request) {
  const Image image = features(request, 1);
  const TensorType& x = request.outputs[0];
  const auto hint =
      choose(request.node, std::vector<Desc>{any_of(request.inputs[1]), row_major(request.inputs[1])},
             [&](const Desc& weight) { return forward(request, x, weight, {}, request.inputs[0], false); });
  const auto chosen =
      choose(request.node, weight_candidates(request, request.inputs[1], request.input_desc(1)),
             [&](const Desc& weight) {
               return ASSAY_ONEDNN(dnnl::inner_product_backward_data::primitive_desc(
                   request.context.engine, row_major(x), weight, row_major(request.inputs[0]), hint,
                   attributes(), true));
             });
  Lowered lowered = draft(request);
  lowered.inputs[0] = to_format(chosen.diff_dst_desc());
  lowered.inputs[1] = to_format(chosen.weights_desc(), image);
  lowered.outputs[0] = to_format(chosen.diff_src_desc(), image);
  auto kernel = std::make_unique<PrimitiveKernel>(request.context,
                                                  ASSAY_ONEDNN(dnnl::inner_product_backward_data(chosen)));
  kernel->input(DNNL_ARG_DIFF_DST, chosen.diff_dst_desc(), 0)
      .input(DNNL_ARG_WEIGHTS, chosen.weights_desc(), 1);
  kernel->output(DNNL_ARG_DIFF_SRC, chosen.diff_src_desc(), 0);
  finish(lowered, std::move(kernel), chosen.scratchpad_desc());
  if (request.has_input(2)) {
    lowered.inputs[2] = lowered.outputs[0];
    lowered.kernel = masked(request.context, std::move(lowered.kernel), chosen.diff_src_desc(), 2);
  }
  return lowered;
}

Lowered lower_weight_gradient(const Request& request) {
  const Image image = features(request, 0);
  const TensorType& weight = request.outputs[0];
  TensorType forward_weight = weight;
  forward_weight.dtype = request.inputs[0].dtype;
  const Desc bias = request.has_output(1) ? row_major(request.outputs[1]) : Desc();
  const auto hint = choose(request.node, std::vector<Desc>{any_of(forward_weight), row_major(forward_weight)},
                           [&](const Desc& desc) {
                             return forward(request, request.inputs[0], desc, {}, request.inputs[1], false);
                           });
  const Desc offered = same_features(image, request.output_desc(0), request.output_image(0));
  const auto chosen =
      choose(request.node, weight_candidates(request, weight, offered), [&](const Desc& desc) {
        return ASSAY_ONEDNN(dnnl::inner_product_backward_weights::primitive_desc(
            request.context.engine, row_major(request.inputs[0]), desc, bias, row_major(request.inputs[1]),
            hint, attributes(), true));
      });
  return weight_gradient<dnnl::inner_product_backward_weights>(request, chosen, bias, image);
}

}  // namespace

std::span<const OpEntry> linear_ops() {
  static constexpr std::array entries{OpEntry{"linear", lower_forward},
                                      OpEntry{"linear_input_gradient", lower_input_gradient},
                                      OpEntry{"linear_weight_gradient", lower_weight_gradient}};
  return entries;
}

}  // namespace assay::onednn
