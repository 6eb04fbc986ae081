#include "backends/cuda/library.hpp"

#include <fmt/format.h>

#include "harness/graph/passes/fuse.hpp"
#include "harness/worker/backend.hpp"

namespace assay::cuda {

CudaLibrary::CudaLibrary(std::unique_ptr<Device> device, bool tf32)
    : device_(std::move(device)), context_{*device_, tf32} {}

Graph fused(const Graph& graph) {
  FusionRules rules;
  rules.activation = {"convolution", "linear", "batch_norm", "add"};
  rules.mask = {"convolution_input_gradient", "linear_input_gradient", "average_pool_gradient",
                "max_pool_gradient"};
  rules.norm_residual = rules.norm_gradient = true;
  rules.grouped_optimizer = true;
  return assay::fuse(graph, rules);
}

std::string reason_against(const Graph& graph, const Node& node) {
  if (find_entry(node.op->name()) == nullptr) {
    return fmt::format("[{}] {}: this backend has no kernel for the op", node.op->name(), node.name);
  }
  for (const auto values : {std::span<const ValueId>(node.inputs), std::span<const ValueId>(node.outputs)}) {
    for (const ValueId v : values) {
      if (v == none || graph.value(v).opaque || graph.value(v).type.dtype != DType::f64) continue;
      return fmt::format("[{}] {}: got f64, for which this backend has no kernels", node.op->name(),
                         node.name);
    }
  }
  return {};
}

Graph CudaLibrary::fuse(Graph graph) const { return fused(graph); }

std::string CudaLibrary::unsupported(const Graph& graph, const Node& node) const {
  return reason_against(graph, node);
}

Format CudaLibrary::plain(const TensorType& type) const { return format_of(type, Layout::plain); }

// In order, so that layouts propagate from the images to the loss and back. Exceptions: the narrow copy of a
// parameter takes the layout that its readers chose, and a dropout mask takes that of its operand.
bool CudaLibrary::leads(const Graph& graph, const Node& node) const {
  if (node.op->name() == "dropout_mask") return false;
  return node.op->name() != "cast" || graph.value(node.inputs[0]).role != Role::parameter;
}

Lowered CudaLibrary::lower(const Graph& graph, NodeId id, const Offer& offer) {
  const Node& node = graph.node(id);
  const OpEntry* entry = find_entry(node.op->name());
  if (entry == nullptr) throw Unsupported(unsupported(graph, node));
  return entry->lower(Request(context_, graph, node, offer));
}

std::unique_ptr<Kernel> CudaLibrary::reorder(const TensorType& type, const Format& from, const Format& to) {
  return make_reorder(context_, type, layout_of(from), layout_of(to));
}

std::unique_ptr<Recording> CudaLibrary::record(std::span<Kernel* const> kernels) {
  return device_->record([kernels] {
    for (Kernel* kernel : kernels) kernel->run();
  });
}

std::unique_ptr<KernelLibrary> make_kernel_library(const CompileOptions& options) {
  return std::make_unique<CudaLibrary>(
      open_device({options.memory_fraction, options.memory_cap, options.deterministic}),
      options.precision.tf32);
}

}  // namespace assay::cuda
