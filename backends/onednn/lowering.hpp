// The arguments of a node's lowering, and the table of this backend's ops.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "backends/onednn/primitive_kernel.hpp"
#include "harness/engine/kernel_library.hpp"
#include "harness/worker/backend.hpp"

namespace assay::onednn {

// Bytes, up to the next cache line.
inline std::int64_t aligned(std::int64_t bytes) { return (bytes + 63) / 64 * 64; }

// Borrows everything until the lowering returns.
struct Request {
  Request(Context& context_of, const Graph& graph_of, const Node& node_of, const Offer& offer_of);

  bool has_input(std::size_t i) const { return i < node.inputs.size() && node.inputs[i] != none; }
  bool has_output(std::size_t i) const { return i < node.outputs.size() && node.outputs[i] != none; }
  bool settled(std::size_t i) const { return offer.inputs[i].decided(); }
  // The offered descriptor of an operand or result; empty if nothing was offered.
  Desc input_desc(std::size_t i) const;
  Desc output_desc(std::size_t i) const;
  Image input_image(std::size_t i) const;
  Image output_image(std::size_t i) const;
  // The fused activation of an op whose only one is this.
  bool relu() const { return node.attributes.has("activation"); }

  Context& context;
  const Graph& graph;
  const Node& node;
  const Offer& offer;
  std::vector<TensorType> inputs, outputs;  // default if absent or opaque
};

// A Lowered with every entry undecided.
Lowered draft(const Request& request);

// A lowering whose operands and results are all row-major, except opaque ones.
Lowered row_major_draft(const Request& request);

// (rows, last dimension): how a matrix op sees a tensor of two or more dimensions in row-major order.
TensorType as_matrix(const TensorType& type);

// Puts the primitive's scratchpad at the start of the node's scratch, and makes it the kernel of the
// lowering.
void finish(Lowered& lowered, std::unique_ptr<PrimitiveKernel> kernel, const Desc& scratchpad);

// A weight gradient in oneDNN's format, as a node with operands x, dy and results dweight, [bias_gradient].
// `image`: the order of the features of x.
template <typename Primitive>
Lowered weight_gradient(const Request& request, const typename Primitive::primitive_desc& chosen,
                        const Desc& bias, const Image& image = {}) {
  Lowered lowered = draft(request);
  const auto plain_or = [&](std::size_t i, const Format& format) {
    return request.inputs[i].shape.size() == static_cast<std::size_t>(chosen.src_desc().get_ndims())
               ? format
               : to_format(row_major(request.inputs[i]));  // seen as a matrix
  };
  lowered.inputs[0] = plain_or(0, to_format(chosen.src_desc(), image));
  lowered.inputs[1] = plain_or(1, to_format(chosen.diff_dst_desc()));
  lowered.outputs[0] = to_format(chosen.diff_weights_desc(), image);
  if (request.has_output(1)) lowered.outputs[1] = to_format(bias);
  auto kernel = std::make_unique<PrimitiveKernel>(request.context, ASSAY_ONEDNN(Primitive(chosen)));
  kernel->input(DNNL_ARG_SRC, chosen.src_desc(), 0).input(DNNL_ARG_DIFF_DST, chosen.diff_dst_desc(), 1);
  kernel->output(DNNL_ARG_DIFF_WEIGHTS, chosen.diff_weights_desc(), 0).output(DNNL_ARG_DIFF_BIAS, bias, 1);
  finish(lowered, std::move(kernel), chosen.scratchpad_desc());
  return lowered;
}

// The format of operand i, or of the result, if its bytes are only the elements in some order (no padded
// channels); else the row-major format. For elementwise kernels.
Format dense_format(const Request& request, std::size_t i);
// The format of an optimizer's group, in which the gradient follows the parameter: that of the parameter, or
// that of the gradient if the parameter has none yet.
Format group_format(const Request& request, std::size_t parameter);

// Whether a reduce, or its gradient, is the mean over H and W of `image`; then it is lowered as a pool.
bool is_global_pool(const Node& reduce, const TensorType& image);

struct OpEntry {
  std::string_view op;
  Lowered (*lower)(const Request& request);
  bool primitive =
      false;  // one oneDNN primitive, if nothing is fused into it: mode primitives has it as well
};

std::span<const OpEntry> activation_ops();
std::span<const OpEntry> all_reduce_ops();
std::span<const OpEntry> attention_ops();
std::span<const OpEntry> clip_ops();
std::span<const OpEntry> convolution_ops();
std::span<const OpEntry> linear_ops();
std::span<const OpEntry> pool_ops();
std::span<const OpEntry> prelu_ops();
std::span<const OpEntry> pointwise_ops();
std::span<const OpEntry> dropout_ops();
std::span<const OpEntry> norm_ops();
std::span<const OpEntry> local_response_norm_ops();
std::span<const OpEntry> loss_ops();
std::span<const OpEntry> embedding_ops();
std::span<const OpEntry> lstm_ops();
std::span<const OpEntry> lazy_adam_ops();
std::span<const OpEntry> move_ops();
std::span<const OpEntry> product_ops();
std::span<const OpEntry> reduce_ops();
std::span<const OpEntry> row_norm_ops();
std::span<const OpEntry> sequence_ops();
std::span<const OpEntry> softmax_ops();
std::span<const OpEntry> optimizer_ops();
// Null if this backend does not have the op.
const OpEntry* find_entry(std::string_view op);

// For the exchange through which all_reduce_ops() exchange gradients.
std::unique_ptr<GradientExchange> make_bare_exchange(collectives::Exchange& exchange);

// The first of `candidates` for which oneDNN has an optimised implementation, or, if all lack one, the first
// with any implementation. make(candidate) returns a primitive descriptor made with allow_empty.
template <typename Candidate, typename Make>
auto choose(const Node& node, const std::vector<Candidate>& candidates, Make&& make)
    -> decltype(make(candidates.front())) {
  decltype(make(candidates.front())) fallback;
  for (const Candidate& candidate : candidates) {
    auto primitive = make(candidate);
    if (primitive.get(true) == nullptr) continue;
    if (std::string_view(primitive.impl_info_str()).starts_with("ref")) {
      if (fallback.get(true) == nullptr) fallback = primitive;
      continue;
    }
    return primitive;
  }
  if (fallback.get(true) == nullptr) {
    throw Unsupported("[" + std::string(node.op->name()) + "] " + node.name +
                      ": oneDNN has no implementation for these shapes and types");
  }
  return fallback;
}

}  // namespace assay::onednn
