// Activations and their gradients: oneDNN's eltwise; and our own loops for softsign, which oneDNN does not
// have, for selu, and for gelu and silu, whose gradients need only one exponential.
#include "backends/onednn/blocks.hpp"
#include "backends/onednn/lowering.hpp"

namespace assay::onednn {
namespace {

using dnnl::algorithm;

// A function of oneDNN, and what its gradient is computed from.
struct Eltwise {
  algorithm forward;
  float alpha = 0, beta = 0;
  algorithm backward = forward;  // from y if it is another one
};

float number(const Node& node, std::string_view attribute) {
  return static_cast<float>(node.attributes.number(attribute));
}

Eltwise sigmoid_of(const Node&) {
  return {algorithm::eltwise_logistic, 0, 0, algorithm::eltwise_logistic_use_dst_for_bwd};
}
Eltwise tanh_of(const Node&) {
  return {algorithm::eltwise_tanh, 0, 0, algorithm::eltwise_tanh_use_dst_for_bwd};
}
Eltwise softplus_of(const Node&) { return {algorithm::eltwise_soft_relu, 1}; }  // alpha: its steepness
Eltwise leaky_relu_of(const Node& node) { return {algorithm::eltwise_relu, number(node, "slope")}; }
Eltwise elu_of(const Node& node) { return {algorithm::eltwise_elu, number(node, "alpha")}; }
Eltwise clamp_of(const Node& node) {
  return {algorithm::eltwise_clip_v2, number(node, "least"), number(node, "most")};
}
Eltwise hard_sigmoid_of(const Node& node) {
  return {algorithm::eltwise_hardsigmoid, number(node, "alpha"), number(node, "beta")};
}
Eltwise hard_swish_of(const Node&) { return {algorithm::eltwise_hardswish, 1.0F / 6, 0.5F}; }

dnnl::eltwise_forward::primitive_desc forward(const Request& request, const Eltwise& eltwise,
                                              const Desc& desc) {
  return ASSAY_ONEDNN(dnnl::eltwise_forward::primitive_desc(
      request.context.engine, dnnl::prop_kind::forward_training, eltwise.forward, desc, desc, eltwise.alpha,
      eltwise.beta, attributes()));
}

template <Eltwise (*Of)(const Node&)>
Lowered lower_activation(const Request& request) {
  // A function that is not 0 at 0 would change the padding of blocked channels.
  const Format format = dense_format(request, 0);
  const Desc desc = layout_of(format).desc;
  const auto chosen = forward(request, Of(request.node), desc);
  Lowered lowered = draft(request);
  lowered.inputs[0] = lowered.outputs[0] = format;
  lowered.in_place = {{0, 0}};
  auto kernel =
      std::make_unique<PrimitiveKernel>(request.context, ASSAY_ONEDNN(dnnl::eltwise_forward(chosen)));
  kernel->input(DNNL_ARG_SRC, desc, 0).output(DNNL_ARG_DST, desc, 0);
  finish(lowered, std::move(kernel), chosen.scratchpad_desc());
  return lowered;
}

// Operands: x or y, and dy.
template <Eltwise (*Of)(const Node&)>
Lowered lower_activation_gradient(const Request& request) {
  const Eltwise eltwise = Of(request.node);
  const Format format = dense_format(request, 0);
  const Desc desc = layout_of(format).desc;
  const auto hint = forward(request, eltwise, desc);
  const auto chosen = ASSAY_ONEDNN(
      dnnl::eltwise_backward::primitive_desc(request.context.engine, eltwise.backward, desc, desc, desc,
                                             eltwise.alpha, eltwise.beta, hint, attributes()));
  Lowered lowered = draft(request);
  lowered.inputs[0] = lowered.inputs[1] = lowered.outputs[0] = format;
  lowered.in_place = {{0, 1}};
  auto kernel =
      std::make_unique<PrimitiveKernel>(request.context, ASSAY_ONEDNN(dnnl::eltwise_backward(chosen)));
  const bool from_x = eltwise.backward == eltwise.forward;
  kernel->input(from_x ? DNNL_ARG_SRC : DNNL_ARG_DST, desc, 0).input(DNNL_ARG_DIFF_DST, desc, 1);
  kernel->output(DNNL_ARG_DIFF_SRC, desc, 0);
  finish(lowered, std::move(kernel), chosen.scratchpad_desc());
  return lowered;
}

Curve softsign_of(const Node&) { return {loops().folds.softsign, loops().folds.softsign_gradient}; }
Curve gelu_of(const Node& node) {
  const bool erf = node.attributes.get<std::string>("approximate") == "none";
  return erf ? loops().curves.gelu : loops().curves.gelu_tanh;
}
Curve silu_of(const Node&) { return loops().curves.silu; }
Curve selu_of(const Node&) { return loops().curves.selu; }

// One of our own loops from one or two operands to the result, block by block.
class CurveKernel final : public Kernel {
 public:
  CurveKernel(int threads, const TensorType& type, const Curve& curve, bool gradient)
      : threads_(threads),
        elements_(type.elements()),
        dtype_(type.dtype),
        curve_(curve),
        gradient_(gradient) {}

  void bind(std::span<void* const> inputs, std::span<void* const> outputs, void*) override {
    x_ = inputs[0];
    dy_ = gradient_ ? inputs[1] : nullptr;
    to_ = outputs[0];
  }
  void run() override {
    for_blocks(threads_, elements_, [this](std::int64_t i, std::int64_t n) {
      Block x, dy, to;
      const float* from = x.read(x_, dtype_, i, n);
      float* result = to.target(to_, dtype_, i);
      if (gradient_) {
        curve_.gradient(from, dy.read(dy_, dtype_, i, n), result, n);
      } else {
        curve_.value(from, result, n);
      }
      to.write(to_, dtype_, i, n);
    });
  }

 private:
  int threads_;
  std::int64_t elements_;
  DType dtype_;
  Curve curve_;
  bool gradient_;
  const void *x_ = nullptr, *dy_ = nullptr;
  void* to_ = nullptr;
};

template <Curve (*Of)(const Node&)>
Lowered lower_curve(const Request& request) {
  const bool gradient = request.node.inputs.size() > 1;
  const Format format = dense_format(request, 0);
  Lowered lowered = draft(request);
  for (Format& input : lowered.inputs) input = format;
  lowered.outputs[0] = format;
  lowered.in_place = {{0, 0}};
  if (gradient) lowered.in_place.push_back({0, 1});
  lowered.kernel =
      std::make_unique<CurveKernel>(request.context.threads, request.outputs[0], Of(request.node), gradient);
  return lowered;
}

}  // namespace

std::span<const OpEntry> activation_ops() {
  static constexpr std::array entries{
      OpEntry{"sigmoid", lower_activation<sigmoid_of>, true},
      OpEntry{"sigmoid_gradient", lower_activation_gradient<sigmoid_of>, true},
      OpEntry{"tanh", lower_activation<tanh_of>, true},
      OpEntry{"tanh_gradient", lower_activation_gradient<tanh_of>, true},
      OpEntry{"softplus", lower_activation<softplus_of>, true},
      OpEntry{"softplus_gradient", lower_activation_gradient<softplus_of>, true},
      OpEntry{"leaky_relu", lower_activation<leaky_relu_of>, true},
      OpEntry{"leaky_relu_gradient", lower_activation_gradient<leaky_relu_of>, true},
      OpEntry{"elu", lower_activation<elu_of>, true},
      OpEntry{"elu_gradient", lower_activation_gradient<elu_of>, true},
      OpEntry{"clamp", lower_activation<clamp_of>, true},
      OpEntry{"clamp_gradient", lower_activation_gradient<clamp_of>, true},
      OpEntry{"hard_sigmoid", lower_activation<hard_sigmoid_of>, true},
      OpEntry{"hard_sigmoid_gradient", lower_activation_gradient<hard_sigmoid_of>, true},
      OpEntry{"hard_swish", lower_activation<hard_swish_of>, true},
      OpEntry{"hard_swish_gradient", lower_activation_gradient<hard_swish_of>, true},
      OpEntry{"softsign", lower_curve<softsign_of>},
      OpEntry{"softsign_gradient", lower_curve<softsign_of>},
      OpEntry{"gelu", lower_curve<gelu_of>},
      OpEntry{"gelu_gradient", lower_curve<gelu_of>},
      OpEntry{"silu", lower_curve<silu_of>},
      OpEntry{"silu_gradient", lower_curve<silu_of>},
      OpEntry{"selu", lower_curve<selu_of>},
      OpEntry{"selu_gradient", lower_curve<selu_of>}};
  return entries;
}

}  // namespace assay::onednn
