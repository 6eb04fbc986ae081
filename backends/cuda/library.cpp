#include "backends/cuda/library.hpp"

#include <fmt/format.h>

#include "backends/cuda/primitives/ops.hpp"
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
  rules.cast_after_embedding = true;
  return assay::fuse(graph, rules);
}

std::string reason_against(const Graph& graph, const Node& node) {
  return reason_against(graph, node, find_entry(node.op->name()));
}

std::string reason_against(const Graph& graph, const Node& node, const OpEntry* entry) {
  if (entry == nullptr) {
    return fmt::format("[{}] {}: this backend has no kernel for the op", node.op->name(), node.name);
  }
  if (const auto activation = node.attributes.get_or("activation", std::string("relu"));
      activation != "relu") {
    return fmt::format("[{}] {}: got the fused activation {}, and this backend fuses relu", node.op->name(),
                       node.name, activation);
  }
  if (node.op->name() == "linear" && node.inputs.size() > 3 && node.inputs[3] != none) {
    return fmt::format("[linear] {}: got a fused residual, and this backend adds it by itself", node.name);
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
  const OpEntry* found = entry(node.op->name());
  if (found == nullptr) throw Unsupported(unsupported(graph, node));
  return found->lower(Request(context_, graph, node, offer));
}

std::unique_ptr<Kernel> CudaLibrary::reorder(const TensorType& type, const Format& from, const Format& to) {
  return make_reorder(context_, type, layout_of(from), layout_of(to));
}

std::unique_ptr<Recording> CudaLibrary::record(std::span<Kernel* const> kernels) {
  return device_->record([kernels] {
    for (Kernel* kernel : kernels) kernel->run();
  });
}

const OpEntry* CudaLibrary::entry(std::string_view op) const { return find_entry(op); }

PrimitivesLibrary::PrimitivesLibrary(std::unique_ptr<Device> device, bool tf32)
    : CudaLibrary(std::move(device), tf32) {
  context().bare = true;
}

Graph PrimitivesLibrary::fuse(Graph graph) const { return primitives::rewritten(graph); }

std::string PrimitivesLibrary::unsupported(const Graph& graph, const Node& node) const {
  return primitives::reason_against(graph, node);
}

std::unique_ptr<Kernel> PrimitivesLibrary::reorder(const TensorType& type, const Format& from,
                                                   const Format& to) {
  return primitives::make_reorder(context(), type, layout_of(from), layout_of(to));
}

const OpEntry* PrimitivesLibrary::entry(std::string_view op) const { return primitives::find_entry(op); }

std::unique_ptr<KernelLibrary> make_kernel_library(const CompileOptions& options) {
  auto device = open_device({options.memory_fraction, options.memory_cap, options.deterministic});
  if (options.mode == primitives_mode)
    return std::make_unique<PrimitivesLibrary>(std::move(device), options.precision.tf32);
  return std::make_unique<CudaLibrary>(std::move(device), options.precision.tf32);
}

}  // namespace assay::cuda
