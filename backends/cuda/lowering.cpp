#include "backends/cuda/lowering.hpp"

#include <algorithm>
#include <initializer_list>

#include "harness/graph/sliding_window.hpp"

namespace assay::cuda {
namespace {

class OwnKernel final : public Kernel {
 public:
  OwnKernel(Enqueue enqueue, std::string implementation)
      : enqueue_(std::move(enqueue)), implementation_(std::move(implementation)) {}

  void bind(std::span<void* const> inputs, std::span<void* const> outputs, void* scratch) override {
    operands_.inputs.assign(inputs.begin(), inputs.end());
    operands_.outputs.assign(outputs.begin(), outputs.end());
    operands_.scratch = scratch;
  }
  std::string_view implementation() const override { return implementation_; }
  void run() override { enqueue_(operands_); }

 private:
  Enqueue enqueue_;
  std::string implementation_;
  Operands operands_;
};

}  // namespace

Request::Request(Context& context_of, const Graph& graph_of, const Node& node_of, const Offer& offer_of)
    : context(context_of),
      graph(graph_of),
      node(node_of),
      offer(offer_of),
      inputs(input_types(graph_of, node_of)),
      outputs(output_types(graph_of, node_of)) {}

Layout Request::follow(std::initializer_list<std::size_t> operands) const {
  if (offer.plain) return Layout::plain;
  for (const std::size_t i : operands) {
    if (has_input(i) && offer.inputs[i].decided()) return layout_of(offer.inputs[i]);
  }
  if (has_output(0) && offer.outputs[0].decided()) return layout_of(offer.outputs[0]);
  return Layout::plain;
}

Layout Request::follow_all() const {
  if (offer.plain) return Layout::plain;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    if (has_input(i) && offer.inputs[i].decided()) return layout_of(offer.inputs[i]);
  }
  return follow({});
}

Format Request::keep(std::size_t operand) const {
  return offer.inputs[operand].decided() ? offer.inputs[operand] : format_of(inputs[operand], Layout::plain);
}

Layout Request::preferred() const {
  if (offer.plain) return Layout::plain;
  const bool tensor_cores = context.tf32 || inputs[0].dtype == DType::bf16;
  return tensor_cores ? Layout::channels_last : Layout::plain;
}

Lowered draft(const Request& request, Layout layout) {
  Lowered lowered;
  const auto settle = [&](std::span<const ValueId> values, const std::vector<TensorType>& types,
                          std::vector<Format>& formats) {
    formats.resize(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (values[i] == none || request.graph.value(values[i]).opaque) continue;
      formats[i] = format_of(types[i], layout);
    }
  };
  settle(request.node.inputs, request.inputs, lowered.inputs);
  settle(request.node.outputs, request.outputs, lowered.outputs);
  return lowered;
}

std::unique_ptr<Kernel> make_kernel(Enqueue enqueue, std::string implementation) {
  return std::make_unique<OwnKernel>(std::move(enqueue), std::move(implementation));
}

MatmulSpec dense_product(const Request& request, std::int64_t m, std::int64_t n, std::int64_t k, bool ta,
                         bool tb) {
  MatmulSpec spec = packed_product(m, n, k, ta, tb);
  spec.operands = request.inputs[0].dtype;
  spec.result = request.outputs[0].dtype;
  spec.tf32 = request.context.tf32;
  spec.bare = request.context.bare;
  return spec;
}

ConvolutionSpec convolution_of(const Request& request, ConvolutionSpec::Kind kind, const Shape& x,
                               const Shape& y, const Shape& weight, Layout layout) {
  ConvolutionSpec spec;
  spec.kind = kind;
  spec.n = x[0];
  spec.c = x[1];
  spec.h = x[2];
  spec.w = x[3];
  spec.k = y[1];
  spec.r = weight[2];
  spec.s = weight[3];
  spec.p = y[2];
  spec.q = y[3];
  spec.groups = groups_of(request.node.attributes);
  const SlidingWindow window = sliding_window(request.node.attributes, spec.r, spec.s);
  const auto moves = [](const WindowAxis& axis) {
    return ConvolutionAxis{axis.stride, axis.before, axis.after, axis.dilation};
  };
  spec.rows = moves(window.rows);
  spec.columns = moves(window.columns);
  spec.channels_last = layout == Layout::channels_last;
  spec.operands = request.inputs[0].dtype;
  spec.result = request.outputs[0].dtype;
  spec.tf32 = request.context.tf32;
  spec.bare = request.context.bare;
  return spec;
}

const OpEntry* find_entry(std::string_view op) {
  for (const auto list : {activation_ops(), all_reduce_ops(),  attention_ops(),
                          clip_ops(),       convolution_ops(), creation_ops(),
                          dropout_ops(),    embedding_ops(),   linear_ops(),
                          loss_ops(),       lstm_ops(),        move_ops(),
                          norm_ops(),       optimizer_ops(),   pointwise_ops(),
                          pool_ops(),       reduce_ops(),      row_norm_ops(),
                          sequence_ops(),   softmax_ops(),     local_response_norm_ops()}) {
    const auto entry = std::ranges::find(list, op, &OpEntry::op);
    if (entry != list.end()) return &*entry;
  }
  return nullptr;
}

}  // namespace assay::cuda
