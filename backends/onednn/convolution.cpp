// Convolution and its gradients, in the formats that oneDNN prefers.
#include "backends/onednn/convolution.hpp"

#include "backends/onednn/first_layer.hpp"
#include "backends/onednn/masked_kernel.hpp"
#include "harness/graph/sliding_window.hpp"

namespace assay::onednn {
namespace {

using dnnl::algorithm;
using dnnl::memory;

// oneDNN uses blocks of 16 channels: other counts are padded, which costs their readers time.
constexpr std::int64_t channel_block = 16;
constexpr std::int64_t first_layer_channels = 3;  // read unblocked by oneDNN's kernels of a first layer

struct Geometry {
  memory::dims strides, dilations, before, after;

  explicit Geometry(const Node& node) {
    const auto [rows, columns] =
        sliding_window(node.attributes, 1, 1);  // the library reads the kernel's size
    strides = {rows.stride, columns.stride};
    dilations = {rows.dilation - 1, columns.dilation - 1};  // the library counts what is left out
    before = {rows.before, columns.before};
    after = {rows.after, columns.after};
  }
};

// A descriptor that was offered for the weight; empty if its order has no form in groups.
Desc grouped_desc(const Node& node, const TensorType& weight, const Desc& offered) {
  const TensorType grouped = grouped_weight(node, weight);
  const bool as_it_is = offered.is_zero() || offered.get_ndims() == static_cast<int>(grouped.shape.size());
  if (as_it_is) return offered;
  const Desc seen = offered.reshape(to_dims(grouped.shape), true);
  return seen.get(true) == nullptr ? Desc() : seen;
}

// In row-major order it is that of the tensor, which has no dimension for groups.
Format weight_format(const Node& node, const TensorType& weight, const Desc& chosen) {
  return chosen == row_major(grouped_weight(node, weight)) ? to_format(row_major(weight)) : to_format(chosen);
}

// The formats to try, best first. An empty offered descriptor means that nobody has chosen.
std::vector<Trio> candidates(const Request& request, const TensorType& image, const TensorType& kernel,
                             const TensorType& result, const Trio& offered) {
  const TensorType weight = grouped_weight(request.node, kernel);
  const Desc offered_weight = grouped_desc(request.node, kernel, offered.weight);
  if (request.offer.plain) return {{row_major(image), row_major(weight), row_major(result)}};
  std::vector<std::pair<Desc, Desc>> pairs;
  const auto add = [&pairs](const Desc& a, const Desc& b) { pairs.emplace_back(a, b); };
  const Desc any_image = any_of(image), any_result = any_of(result);
  const Desc image_nhwc = with_tag(image, Tag::nhwc), result_nhwc = with_tag(result, Tag::nhwc);
  const bool has_image = !offered.image.is_zero(), has_result = !offered.result.is_zero();
  const std::int64_t in = image.shape[1], out = result.shape[1];
  const bool blocks = out % channel_block == 0 && (in % channel_block == 0 || in <= first_layer_channels);
  if (has_image && has_result) add(offered.image, offered.result);
  if (has_image) {
    if (!blocks) add(offered.image, result_nhwc);
    add(offered.image, any_result);
  }
  if (has_result) {
    if (!blocks) add(image_nhwc, offered.result);
    add(any_image, offered.result);
  }
  if (blocks) add(any_image, any_result);
  add(image_nhwc, result_nhwc);
  add(any_image, any_result);
  add(row_major(image), row_major(result));
  std::vector<Trio> trios;
  for (const auto& [a, b] : pairs) {
    if (!offered_weight.is_zero()) trios.push_back({a, offered_weight, b});
    trios.push_back({a, any_of(weight), b});
  }
  return trios;
}

dnnl::convolution_forward::primitive_desc forward(Context& context, const Geometry& geometry,
                                                  const Trio& trio, const Desc& bias, bool relu) {
  return ASSAY_ONEDNN(dnnl::convolution_forward::primitive_desc(
      context.engine, dnnl::prop_kind::forward_training, algorithm::convolution_direct, trio.image,
      trio.weight, bias, trio.result, geometry.strides, geometry.dilations, geometry.before, geometry.after,
      attributes(relu), true));
}

// The backward primitives need a forward one as a hint; any that exists is enough.
dnnl::convolution_forward::primitive_desc hint(const Request& request, const Geometry& geometry,
                                               const TensorType& image, const TensorType& kernel,
                                               const TensorType& result) {
  const TensorType weight = grouped_weight(request.node, kernel);
  return choose(request.node,
                std::vector<Trio>{{any_of(image), any_of(weight), any_of(result)},
                                  {row_major(image), row_major(weight), row_major(result)}},
                [&](const Trio& trio) { return forward(request.context, geometry, trio, {}, false); });
}

Lowered lower_convolution(const Request& request) {
  Lowered ours = draft(request);
  if (auto kernel = first_layer_forward(request, ours)) {
    ours.kernel = std::move(kernel);
    return ours;
  }
  return convolution_forward(
      request, candidates(request, request.inputs[0], request.inputs[1], request.outputs[0],
                          {request.input_desc(0), request.input_desc(1), request.output_desc(0)}));
}

Lowered lower_convolution_input_gradient(const Request& request) {
  const TensorType& image = request.outputs[0];
  const bool mask = request.has_input(2);
  Trio offered{request.output_desc(0), request.input_desc(1), request.input_desc(0)};
  if (mask && request.settled(2)) offered.image = request.input_desc(2);
  std::vector<Trio> trios = candidates(request, image, request.inputs[1], request.inputs[0], offered);
  // Padding is cheaper than packing if the channels of dx fill no block, unless a mask decides the format.
  const bool padded = image.shape[1] % channel_block != 0 && request.inputs[0].shape[1] % channel_block == 0;
  if (!request.offer.plain && !mask && padded) {
    trios.insert(trios.begin(), {any_of(image), any_of(grouped_weight(request.node, request.inputs[1])),
                                 any_of(request.inputs[0])});
  }
  Lowered lowered = convolution_input_gradient(request, trios);
  if (mask) {
    lowered.inputs[2] = lowered.outputs[0];
    lowered.kernel =
        masked(request.context, std::move(lowered.kernel), layout_of(lowered.outputs[0]).desc, 2);
  }
  return lowered;
}

Lowered lower_convolution_weight_gradient(const Request& request) {
  Lowered ours = draft(request);
  if (auto kernel = first_layer_gradient(request, ours)) {
    ours.kernel = std::move(kernel);
    return ours;
  }
  return convolution_weight_gradient(
      request, candidates(request, request.inputs[0], request.outputs[0], request.inputs[1],
                          {request.input_desc(0), request.output_desc(0), request.input_desc(1)}));
}

}  // namespace

TensorType grouped_weight(const Node& node, const TensorType& weight) {
  const std::int64_t groups = groups_of(node.attributes);
  if (groups == 1) return weight;
  const Shape& s = weight.shape;
  return {weight.dtype, {groups, s[0] / groups, s[1], s[2], s[3]}};
}

Lowered convolution_forward(const Request& request, const std::vector<Trio>& candidates) {
  const Geometry geometry(request.node);
  const Desc bias = request.has_input(2) ? row_major(request.inputs[2]) : Desc();
  const auto chosen = choose(request.node, candidates, [&](const Trio& trio) {
    return forward(request.context, geometry, trio, bias, request.relu());
  });
  Lowered lowered = draft(request);
  lowered.inputs[0] = to_format(chosen.src_desc());
  lowered.inputs[1] = weight_format(request.node, request.inputs[1], chosen.weights_desc());
  if (request.has_input(2)) lowered.inputs[2] = to_format(bias);
  lowered.outputs[0] = to_format(chosen.dst_desc());
  auto kernel =
      std::make_unique<PrimitiveKernel>(request.context, ASSAY_ONEDNN(dnnl::convolution_forward(chosen)));
  kernel->input(DNNL_ARG_SRC, chosen.src_desc(), 0).input(DNNL_ARG_WEIGHTS, chosen.weights_desc(), 1);
  kernel->input(DNNL_ARG_BIAS, bias, 2).output(DNNL_ARG_DST, chosen.dst_desc(), 0);
  finish(lowered, std::move(kernel), chosen.scratchpad_desc());
  return lowered;
}

Lowered convolution_input_gradient(const Request& request, const std::vector<Trio>& candidates) {
  const Geometry geometry(request.node);
  const auto forward_hint = hint(request, geometry, request.outputs[0], request.inputs[1], request.inputs[0]);
  const auto chosen = choose(request.node, candidates, [&](const Trio& trio) {
    return ASSAY_ONEDNN(dnnl::convolution_backward_data::primitive_desc(
        request.context.engine, algorithm::convolution_direct, trio.image, trio.weight, trio.result,
        geometry.strides, geometry.dilations, geometry.before, geometry.after, forward_hint, attributes(),
        true));
  });
  Lowered lowered = draft(request);
  lowered.inputs[0] = to_format(chosen.diff_dst_desc());
  lowered.inputs[1] = weight_format(request.node, request.inputs[1], chosen.weights_desc());
  lowered.outputs[0] = to_format(chosen.diff_src_desc());
  auto kernel = std::make_unique<PrimitiveKernel>(request.context,
                                                  ASSAY_ONEDNN(dnnl::convolution_backward_data(chosen)));
  kernel->input(DNNL_ARG_DIFF_DST, chosen.diff_dst_desc(), 0)
      .input(DNNL_ARG_WEIGHTS, chosen.weights_desc(), 1);
  kernel->output(DNNL_ARG_DIFF_SRC, chosen.diff_src_desc(), 0);
  finish(lowered, std::move(kernel), chosen.scratchpad_desc());
  return lowered;
}

Lowered convolution_weight_gradient(const Request& request, const std::vector<Trio>& candidates) {
  const Geometry geometry(request.node);
  TensorType forward_weight = request.outputs[0];
  forward_weight.dtype = request.inputs[0].dtype;
  const auto forward_hint = hint(request, geometry, request.inputs[0], forward_weight, request.inputs[1]);
  const Desc bias = request.has_output(1) ? row_major(request.outputs[1]) : Desc();
  const auto chosen = choose(request.node, candidates, [&](const Trio& trio) {
    return ASSAY_ONEDNN(dnnl::convolution_backward_weights::primitive_desc(
        request.context.engine, algorithm::convolution_direct, trio.image, trio.weight, bias, trio.result,
        geometry.strides, geometry.dilations, geometry.before, geometry.after, forward_hint, attributes(),
        true));
  });
  Lowered lowered = weight_gradient<dnnl::convolution_backward_weights>(request, chosen, bias);
  lowered.outputs[0] = weight_format(request.node, request.outputs[0], chosen.diff_weights_desc());
  return lowered;
}

std::span<const OpEntry> convolution_ops() {
  static constexpr std::array entries{
      OpEntry{"convolution", lower_convolution},
      OpEntry{"convolution_input_gradient", lower_convolution_input_gradient},
      OpEntry{"convolution_weight_gradient", lower_convolution_weight_gradient}};
  return entries;
}

}  // namespace assay::onednn
