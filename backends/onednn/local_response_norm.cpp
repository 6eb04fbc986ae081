// Local response norm by oneDNN, in the format of the image.
#include <array>
#include <memory>
#include <vector>

#include "backends/onednn/lowering.hpp"

namespace assay::onednn {
namespace {

using dnnl::prop_kind;

constexpr auto across = dnnl::algorithm::lrn_across_channels;

struct Settings {
  std::int64_t size;
  float alpha, beta, bias;

  explicit Settings(const Node& node)
      : size(node.attributes.get<std::int64_t>("size")),
        alpha(static_cast<float>(node.attributes.number("alpha"))),
        beta(static_cast<float>(node.attributes.number("beta"))),
        bias(static_cast<float>(node.attributes.number("bias"))) {}
};

dnnl::lrn_forward::primitive_desc forward(const Request& request, prop_kind task, const Desc& x) {
  const Settings s(request.node);
  return ASSAY_ONEDNN(dnnl::lrn_forward::primitive_desc(request.context.engine, task, across, x, x, s.size,
                                                        s.alpha, s.beta, s.bias, attributes(), true));
}

std::vector<Desc> candidates(const Request& request) {
  const TensorType& x = request.inputs[0];
  std::vector<Desc> found;
  const std::int64_t size = Settings(request.node).size;
  // With nhwc the library's gradient crashes at a size of 1 and is wrong at 7 (oneDNN 3.2).
  const bool any = !request.offer.plain && (size == 3 || size == 5);
  if (any && request.settled(0)) found.push_back(request.input_desc(0));
  if (any) found.push_back(with_tag(x, Tag::nhwc));
  found.push_back(row_major(x));
  return found;
}

Lowered lower_forward(const Request& request) {
  const auto chosen = choose(request.node, candidates(request), [&](const Desc& x) {
    return forward(request, prop_kind::forward_inference, x);
  });
  Lowered lowered = draft(request);
  lowered.inputs[0] = lowered.outputs[0] = to_format(chosen.src_desc());
  auto kernel = std::make_unique<PrimitiveKernel>(request.context, ASSAY_ONEDNN(dnnl::lrn_forward(chosen)));
  kernel->input(DNNL_ARG_SRC, chosen.src_desc(), 0).output(DNNL_ARG_DST, chosen.dst_desc(), 0);
  finish(lowered, std::move(kernel), chosen.scratchpad_desc());
  return lowered;
}

// Computes the result again for the workspace that the library's gradient reads.
class ResponseNormGradient final : public Kernel {
 public:
  ResponseNormGradient(std::unique_ptr<PrimitiveKernel> again, std::unique_ptr<PrimitiveKernel> backward)
      : again_(std::move(again)), backward_(std::move(backward)) {}
  void bind(std::span<void* const> inputs, std::span<void* const> outputs, void* scratch) override {
    again_->bind(inputs, outputs, scratch);
    backward_->bind(inputs, outputs, scratch);
  }
  void run() override {
    again_->run();
    backward_->run();
  }
  std::string_view implementation() const override { return backward_->implementation(); }

 private:
  std::unique_ptr<PrimitiveKernel> again_, backward_;
};

Lowered lower_gradient(const Request& request) {
  const Settings s(request.node);
  const auto chosen = choose(request.node, candidates(request), [&](const Desc& x) {
    const auto hint = forward(request, prop_kind::forward_training, x);
    if (hint.get(true) == nullptr) return dnnl::lrn_backward::primitive_desc();
    return ASSAY_ONEDNN(dnnl::lrn_backward::primitive_desc(
        request.context.engine, across, x, x, x, s.size, s.alpha, s.beta, s.bias, hint, attributes(), true));
  });
  const Desc x = chosen.src_desc();
  const auto again = forward(request, prop_kind::forward_training, x);
  const auto bytes = [](const Desc& desc) { return aligned(static_cast<std::int64_t>(desc.get_size())); };
  const std::int64_t workspace = bytes(again.dst_desc());
  const std::int64_t pad = workspace + bytes(again.workspace_desc());
  Lowered lowered = draft(request);
  lowered.inputs[0] = lowered.inputs[1] = lowered.outputs[0] = to_format(x);
  lowered.scratch_bytes = pad + std::max(bytes(again.scratchpad_desc()), bytes(chosen.scratchpad_desc()));
  auto first = std::make_unique<PrimitiveKernel>(request.context, ASSAY_ONEDNN(dnnl::lrn_forward(again)));
  first->input(DNNL_ARG_SRC, x, 0).scratch(DNNL_ARG_DST, again.dst_desc(), 0);
  first->scratch(DNNL_ARG_WORKSPACE, again.workspace_desc(), workspace);
  first->scratch(DNNL_ARG_SCRATCHPAD, again.scratchpad_desc(), pad);
  auto second = std::make_unique<PrimitiveKernel>(request.context, ASSAY_ONEDNN(dnnl::lrn_backward(chosen)));
  second->input(DNNL_ARG_SRC, x, 0).input(DNNL_ARG_DIFF_DST, x, 1).output(DNNL_ARG_DIFF_SRC, x, 0);
  second->scratch(DNNL_ARG_WORKSPACE, chosen.workspace_desc(), workspace);
  second->scratch(DNNL_ARG_SCRATCHPAD, chosen.scratchpad_desc(), pad);
  lowered.kernel = std::make_unique<ResponseNormGradient>(std::move(first), std::move(second));
  return lowered;
}

}  // namespace

std::span<const OpEntry> local_response_norm_ops() {
  static constexpr std::array entries{OpEntry{"local_response_norm", lower_forward, true},
                                      OpEntry{"local_response_norm_gradient", lower_gradient, true}};
  return entries;
}

}  // namespace assay::onednn
