#include "backends/onednn/lowering.hpp"

namespace assay::onednn {
namespace {

Desc desc_of(const std::vector<Format>& formats, std::size_t i) {
  if (i >= formats.size() || !formats[i].decided() || formats[i].detail == nullptr) return {};
  return layout_of(formats[i]).desc;
}

Image image_of(const std::vector<Format>& formats, std::size_t i) {
  if (i >= formats.size() || !formats[i].decided() || formats[i].detail == nullptr) return {};
  return layout_of(formats[i]).image;
}

}  // namespace

Request::Request(Context& context_of, const Graph& graph_of, const Node& node_of, const Offer& offer_of)
    : context(context_of),
      graph(graph_of),
      node(node_of),
      offer(offer_of),
      inputs(input_types(graph_of, node_of)),
      outputs(output_types(graph_of, node_of)) {}

Desc Request::input_desc(std::size_t i) const { return desc_of(offer.inputs, i); }
Desc Request::output_desc(std::size_t i) const { return desc_of(offer.outputs, i); }
Image Request::input_image(std::size_t i) const { return image_of(offer.inputs, i); }
Image Request::output_image(std::size_t i) const { return image_of(offer.outputs, i); }

Lowered draft(const Request& request) {
  Lowered lowered;
  lowered.inputs.resize(request.node.inputs.size());
  lowered.outputs.resize(request.node.outputs.size());
  return lowered;
}

Lowered row_major_draft(const Request& request) {
  Lowered lowered = draft(request);
  const auto is_tensor = [&](ValueId v) { return v != none && !request.graph.value(v).opaque; };
  for (std::size_t i = 0; i < request.node.inputs.size(); ++i) {
    if (is_tensor(request.node.inputs[i])) lowered.inputs[i] = to_format(row_major(request.inputs[i]));
  }
  for (std::size_t o = 0; o < request.node.outputs.size(); ++o) {
    if (is_tensor(request.node.outputs[o])) lowered.outputs[o] = to_format(row_major(request.outputs[o]));
  }
  return lowered;
}

TensorType as_matrix(const TensorType& type) {
  const std::int64_t last = type.shape.back();
  return {type.dtype, {type.elements() / last, last}};
}

void finish(Lowered& lowered, std::unique_ptr<PrimitiveKernel> kernel, const Desc& scratchpad) {
  kernel->scratch(DNNL_ARG_SCRATCHPAD, scratchpad, 0);
  lowered.scratch_bytes = static_cast<std::int64_t>(scratchpad.get_size());
  lowered.kernel = std::move(kernel);
}

Format dense_format(const Request& request, std::size_t i) {
  const auto dense = [](const Desc& desc) {
    return !desc.is_zero() && desc.get_dims() == desc.get_padded_dims();
  };
  if (dense(request.input_desc(i))) return request.offer.inputs[i];
  if (!request.settled(i) && dense(request.output_desc(0))) return request.offer.outputs[0];
  return to_format(row_major(request.inputs[i]));
}

Format group_format(const Request& request, std::size_t parameter) {
  for (const std::size_t i : {parameter, parameter + 1}) {
    if (request.settled(i)) return request.offer.inputs[i];
  }
  return to_format(row_major(request.inputs[parameter]));
}

const OpEntry* find_entry(std::string_view op) {
  for (const auto list : {convolution_ops(), linear_ops(),
                          pool_ops(),        pointwise_ops(),
                          dropout_ops(),     norm_ops(),
                          loss_ops(),        embedding_ops(),
                          lstm_ops(),        lazy_adam_ops(),
                          optimizer_ops(),   activation_ops(),
                          move_ops(),        product_ops(),
                          reduce_ops(),      softmax_ops(),
                          attention_ops(),   clip_ops(),
                          row_norm_ops(),    sequence_ops(),
                          all_reduce_ops(),  local_response_norm_ops(),
                          prelu_ops()}) {
    for (const OpEntry& entry : list) {
      if (entry.op == op) return &entry;
    }
  }
  return nullptr;
}

}  // namespace assay::onednn
