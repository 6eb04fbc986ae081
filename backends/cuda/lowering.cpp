#include "backends/cuda/lowering.hpp"

#include <algorithm>
#include <initializer_list>

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

const OpEntry* find_entry(std::string_view op) {
  for (const auto list : {activation_ops(), convolution_ops(), creation_ops(), dropout_ops(), embedding_ops(),
                          linear_ops(), loss_ops(), lstm_ops(), move_ops(), norm_ops(), optimizer_ops(),
                          pointwise_ops(), pool_ops(), reduce_ops(), softmax_ops()}) {
    const auto entry = std::ranges::find(list, op, &OpEntry::op);
    if (entry != list.end()) return &*entry;
  }
  return nullptr;
}

}  // namespace assay::cuda
