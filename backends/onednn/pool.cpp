// Average and maximum pooling, in the format of the operand.
#include "backends/onednn/masked_kernel.hpp"
#include "backends/onednn/pool_gradient.hpp"
#include "harness/graph/sliding_window.hpp"

namespace assay::onednn {
namespace {

using dnnl::algorithm;
using dnnl::memory;

struct Windows {
  memory::dims kernel, strides, dilation{0, 0}, before, after;

  // oneDNN requires a padding after the image with which the last window ends at the end of the padded image;
  // a negative padding cuts off a row that no window reaches. x, y: (N, C, H, W)
  Windows(const Node& node, const Shape& x, const Shape& y) {
    const SlidingWindow window = pool_window(node.attributes);
    std::size_t d = 2;
    for (const WindowAxis& axis : {window.rows, window.columns}) {
      kernel.push_back(axis.kernel);
      strides.push_back(axis.stride);
      before.push_back(axis.before);
      after.push_back((y[d] - 1) * axis.stride + axis.kernel - x[d] - axis.before);
      ++d;
    }
  }
};

algorithm kind_of(const Node& node) {
  if (node.op->name().starts_with("max")) return algorithm::pooling_max;
  return counts_padding(node.attributes) ? algorithm::pooling_avg_include_padding
                                         : algorithm::pooling_avg_exclude_padding;
}

// x decides the format of both.
dnnl::pooling_forward::primitive_desc forward(const Request& request, dnnl::prop_kind task, const Windows& w,
                                              const Desc& x, const TensorType& y) {
  return ASSAY_ONEDNN(dnnl::pooling_forward::primitive_desc(
      request.context.engine, task, kind_of(request.node), x, request.offer.plain ? row_major(y) : any_of(y),
      w.strides, w.kernel, w.dilation, w.before, w.after, attributes(), true));
}

Lowered lower_pool(const Request& request) {
  const TensorType &x = request.inputs[0], &y = request.outputs[0];
  const Windows windows(request.node, x.shape, y.shape);
  const bool workspace = request.has_output(1);
  std::vector<Desc> candidates;
  if (request.settled(0)) candidates.push_back(request.input_desc(0));
  if (!request.offer.plain) candidates.push_back(with_tag(x, Tag::nhwc));
  candidates.push_back(row_major(x));
  const auto task = workspace ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference;
  const auto chosen = choose(request.node, candidates,
                             [&](const Desc& desc) { return forward(request, task, windows, desc, y); });
  Lowered lowered = draft(request);
  lowered.inputs[0] = to_format(chosen.src_desc());
  lowered.outputs[0] = to_format(chosen.dst_desc());
  auto kernel =
      std::make_unique<PrimitiveKernel>(request.context, ASSAY_ONEDNN(dnnl::pooling_forward(chosen)));
  kernel->input(DNNL_ARG_SRC, chosen.src_desc(), 0).output(DNNL_ARG_DST, chosen.dst_desc(), 0);
  kernel->scratch(DNNL_ARG_SCRATCHPAD, chosen.scratchpad_desc(), 0);
  lowered.scratch_bytes = static_cast<std::int64_t>(chosen.scratchpad_desc().get_size());
  if (workspace) {
    const Desc space = chosen.workspace_desc();
    lowered.outputs[1] = opaque_format(static_cast<std::int64_t>(space.get_size()), chosen.src_desc());
    kernel->output(DNNL_ARG_WORKSPACE, space, 1);
  }
  lowered.kernel = std::move(kernel);
  return lowered;
}

// Possible formats of dx, best first. `mask` and `argmax` are operands, or `none` if the op has no such
// operand.
std::vector<Desc> result_candidates(const Request& request, int mask, int argmax) {
  const TensorType& dx = request.outputs[0];
  // A workspace must be read in the format in which it was written.
  if (argmax != none) return {request.input_desc(static_cast<std::size_t>(argmax))};
  if (request.offer.plain) return {row_major(dx)};
  std::vector<Desc> candidates;
  if (request.has_input(static_cast<std::size_t>(mask)) && request.settled(static_cast<std::size_t>(mask))) {
    candidates.push_back(request.input_desc(static_cast<std::size_t>(mask)));
  }
  if (request.settled(0)) {
    const Tag tag = image_tag(request.input_desc(0));
    if (tag != Tag::undef) candidates.push_back(with_tag(dx, tag));
  }
  candidates.push_back(with_tag(dx, Tag::nhwc));
  candidates.push_back(row_major(dx));
  return candidates;
}

Lowered lower_pool_gradient(const Request& request, int mask, int argmax,
                            const std::vector<Desc>& candidates) {
  const TensorType &dy = request.inputs[0], &dx = request.outputs[0];
  const Windows windows(request.node, dx.shape, dy.shape);
  const auto chosen = choose(request.node, candidates, [&](const Desc& desc) {
    const auto hint = forward(request, dnnl::prop_kind::forward_training, windows, desc, dy);
    if (hint.get(true) == nullptr) return dnnl::pooling_backward::primitive_desc();
    return ASSAY_ONEDNN(dnnl::pooling_backward::primitive_desc(
        request.context.engine, kind_of(request.node), desc, hint.dst_desc(), windows.strides, windows.kernel,
        windows.dilation, windows.before, windows.after, hint, attributes(), true));
  });
  Lowered lowered = draft(request);
  lowered.inputs[0] = to_format(chosen.diff_dst_desc());
  lowered.outputs[0] = to_format(chosen.diff_src_desc());
  lowered.scratch_bytes = static_cast<std::int64_t>(chosen.scratchpad_desc().get_size());
  auto kernel =
      std::make_unique<PrimitiveKernel>(request.context, ASSAY_ONEDNN(dnnl::pooling_backward(chosen)));
  kernel->input(DNNL_ARG_DIFF_DST, chosen.diff_dst_desc(), 0)
      .output(DNNL_ARG_DIFF_SRC, chosen.diff_src_desc(), 0);
  kernel->scratch(DNNL_ARG_SCRATCHPAD, chosen.scratchpad_desc(), 0);
  if (argmax != none) {
    const auto place = static_cast<std::size_t>(argmax);
    kernel->input(DNNL_ARG_WORKSPACE, chosen.workspace_desc(), place);
    lowered.inputs[place] = request.offer.inputs[place];
  }
  lowered.kernel = std::move(kernel);
  if (const auto place = static_cast<std::size_t>(mask); request.has_input(place)) {
    lowered.inputs[place] = lowered.outputs[0];
    lowered.kernel = masked(request.context, std::move(lowered.kernel), chosen.diff_src_desc(), place);
  }
  return lowered;
}

Lowered lower_average_gradient(const Request& request) {
  Lowered lowered = draft(request);
  if (auto kernel = fused_average_pool_gradient(request, lowered)) {
    lowered.kernel = std::move(kernel);
    return lowered;
  }
  return average_pool_gradient(request, result_candidates(request, 1, none));
}

Lowered lower_max_gradient(const Request& request) {
  return lower_pool_gradient(request, 2, 1, result_candidates(request, 2, 1));
}

}  // namespace

Lowered average_pool_gradient(const Request& request, const std::vector<Desc>& candidates) {
  return lower_pool_gradient(request, 1, none, candidates);
}

std::span<const OpEntry> pool_ops() {
  static constexpr std::array entries{
      OpEntry{"average_pool", lower_pool, true}, OpEntry{"average_pool_gradient", lower_average_gradient},
      OpEntry{"max_pool", lower_pool, true}, OpEntry{"max_pool_gradient", lower_max_gradient, true}};
  return entries;
}

}  // namespace assay::onednn
