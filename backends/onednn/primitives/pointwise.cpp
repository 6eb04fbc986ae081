// Ops for which oneDNN has no primitive, composed of elementwise primitives and reorders.
#include "backends/onednn/primitives/composition.hpp"
#include "backends/onednn/primitives/ops.hpp"

namespace assay::onednn::primitives {
namespace {

using dnnl::algorithm;

// x / (1 + |x|).
Lowered lower_softsign(const Request& request) {
  Lowered lowered = row_major_draft(request);
  Composition steps(request);
  const Term x = steps.widened(steps.input(0, row_major(request.inputs[0])));
  const Term divisor = steps.temporary(row_major({DType::f32, request.inputs[0].shape}));
  steps.eltwise(algorithm::eltwise_abs, x, divisor);
  steps.eltwise(algorithm::eltwise_linear, divisor, divisor, 1, 1);
  steps.binary(algorithm::binary_div, x, divisor, steps.output(0, row_major(request.outputs[0])));
  steps.finish(lowered);
  return lowered;
}

// Operands x, dy: dy / (1 + |x|)^2.
Lowered lower_softsign_gradient(const Request& request) {
  Lowered lowered = row_major_draft(request);
  Composition steps(request);
  const Term x = steps.widened(steps.input(0, row_major(request.inputs[0])));
  const Term dy = steps.widened(steps.input(1, row_major(request.inputs[1])));
  const Term divisor = steps.temporary(row_major({DType::f32, request.inputs[0].shape}));
  steps.eltwise(algorithm::eltwise_abs, x, divisor);
  steps.eltwise(algorithm::eltwise_linear, divisor, divisor, 1, 1);
  steps.eltwise(algorithm::eltwise_square, divisor, divisor);
  steps.binary(algorithm::binary_div, dy, divisor, steps.output(0, row_major(request.outputs[0])));
  steps.finish(lowered);
  return lowered;
}

struct Eltwise {
  algorithm kind;
  float alpha;
};
Eltwise gelu_of(const Node& node) {
  const bool erf = node.attributes.get<std::string>("approximate") == "none";
  return {erf ? algorithm::eltwise_gelu_erf : algorithm::eltwise_gelu_tanh, 0};
}
Eltwise silu_of(const Node&) { return {algorithm::eltwise_swish, 1}; }

void run_gradient(Composition& steps, const Eltwise& eltwise, const Term& x, const Term& dy, const Term& dx) {
  const Desc desc = x.desc;
  const auto hint = ASSAY_ONEDNN(
      dnnl::eltwise_forward::primitive_desc(steps.engine(), dnnl::prop_kind::forward_training, eltwise.kind,
                                            desc, desc, eltwise.alpha, 0.0F, attributes()));
  const auto chosen = ASSAY_ONEDNN(dnnl::eltwise_backward::primitive_desc(
      steps.engine(), eltwise.kind, desc, desc, desc, eltwise.alpha, 0.0F, hint, attributes()));
  steps.run<dnnl::eltwise_backward>(chosen,
                                    {{DNNL_ARG_SRC, x}, {DNNL_ARG_DIFF_DST, dy}, {DNNL_ARG_DIFF_SRC, dx}});
}

template <Eltwise (*Of)(const Node&)>
Lowered lower_eltwise(const Request& request) {
  const Eltwise eltwise = Of(request.node);
  const Desc desc = row_major(request.inputs[0]);
  Lowered lowered = row_major_draft(request);
  Composition steps(request);
  steps.eltwise(eltwise.kind, steps.input(0, desc), steps.output(0, desc), eltwise.alpha);
  steps.finish(lowered);
  return lowered;
}

// Operands x, dy.
template <Eltwise (*Of)(const Node&)>
Lowered lower_eltwise_gradient(const Request& request) {
  const Eltwise eltwise = Of(request.node);
  const Desc desc = row_major(request.inputs[0]);
  Lowered lowered = row_major_draft(request);
  Composition steps(request);
  run_gradient(steps, eltwise, steps.input(0, desc), steps.input(1, desc), steps.output(0, desc));
  steps.finish(lowered);
  return lowered;
}

// s elu(x) with the alpha of selu.
constexpr float selu_scale = 1.0507009874F, selu_alpha = 1.6732632424F;

Lowered lower_selu(const Request& request) {
  Lowered lowered = row_major_draft(request);
  Composition steps(request);
  const Desc desc = row_major(request.inputs[0]);
  const Term y = steps.output(0, desc);
  steps.eltwise(algorithm::eltwise_elu, steps.input(0, desc), y, selu_alpha);
  steps.eltwise(algorithm::eltwise_linear, y, y, selu_scale);
  steps.finish(lowered);
  return lowered;
}

Lowered lower_selu_gradient(const Request& request) {
  Lowered lowered = row_major_draft(request);
  Composition steps(request);
  const Desc desc = row_major(request.inputs[0]);
  const Term dx = steps.output(0, desc);
  run_gradient(steps, {algorithm::eltwise_elu, selu_alpha}, steps.input(0, desc), steps.input(1, desc), dx);
  steps.eltwise(algorithm::eltwise_linear, dx, dx, selu_scale);
  steps.finish(lowered);
  return lowered;
}

// Operands x, mask: multiplies by the mask, in the order of x if x is an image.
Lowered lower_dropout(const Request& request) {
  const Tag tag = request.settled(0) ? image_tag(request.input_desc(0)) : Tag::undef;
  const auto laid = [&](const TensorType& type) {
    return tag == Tag::undef ? row_major(type) : with_tag(type, tag);
  };
  const Desc x = laid(request.inputs[0]), mask = laid(request.inputs[1]);
  Lowered lowered = draft(request);
  lowered.inputs[0] = lowered.outputs[0] = to_format(x);
  lowered.inputs[1] = to_format(mask);
  Composition steps(request);
  const Term y = steps.output(0, x);
  steps.binary(algorithm::binary_mul, steps.input(0, x), steps.input(1, mask), y);
  steps.eltwise(algorithm::eltwise_linear, y, y,
                static_cast<float>(1 / (1 - request.node.attributes.number("rate"))));
  steps.finish(lowered);
  return lowered;
}

Lowered lower_constant(const Request& request) {
  Lowered lowered = row_major_draft(request);
  Composition steps(request);
  steps.fill(static_cast<float>(request.node.attributes.number("value")),
             steps.output(0, row_major(request.outputs[0])));
  steps.finish(lowered);
  return lowered;
}

Lowered lower_copy(const Request& request) {
  Lowered lowered = row_major_draft(request);
  Composition steps(request);
  const Desc desc = row_major(request.outputs[0]);
  steps.reorder(steps.input(0, desc), steps.output(0, desc));
  steps.finish(lowered);
  return lowered;
}

// flatten and reshape: the same bytes in row-major order, seen in another shape.
Lowered lower_reshape(const Request& request) {
  Lowered lowered = lower_copy(request);
  lowered.view = true;
  return lowered;
}

}  // namespace

std::span<const OpEntry> pointwise_ops() {
  static constexpr std::array entries{OpEntry{"softsign", lower_softsign},
                                      OpEntry{"softsign_gradient", lower_softsign_gradient},
                                      OpEntry{"gelu", lower_eltwise<gelu_of>},
                                      OpEntry{"gelu_gradient", lower_eltwise_gradient<gelu_of>},
                                      OpEntry{"silu", lower_eltwise<silu_of>},
                                      OpEntry{"silu_gradient", lower_eltwise_gradient<silu_of>},
                                      OpEntry{"selu", lower_selu},
                                      OpEntry{"selu_gradient", lower_selu_gradient},
                                      OpEntry{"dropout", lower_dropout},
                                      OpEntry{"constant", lower_constant},
                                      OpEntry{"flatten", lower_reshape},
                                      OpEntry{"reshape", lower_reshape},
                                      OpEntry{"from_array", lower_copy}};
  return entries;
}

}  // namespace assay::onednn::primitives
