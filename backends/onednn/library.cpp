#include "backends/onednn/library.hpp"

#include <fmt/format.h>
#include <omp.h>

#include <algorithm>

#include "backends/onednn/first_layer.hpp"
#include "backends/onednn/primitives/ops.hpp"
#include "backends/onednn/reorder_kernel.hpp"
#include "harness/graph/passes/fuse.hpp"
#include "harness/graph/passes/projections.hpp"

namespace assay::onednn {

OnednnLibrary::OnednnLibrary(int threads, std::shared_ptr<collectives::Exchange> exchange)
    : exchange_(std::move(exchange)), bare_exchange_(exchange_ ? make_bare_exchange(*exchange_) : nullptr) {
  omp_set_num_threads(threads);
  omp_set_dynamic(0);
  context_.threads = threads;
  context_.exchange = exchange_.get();
}

Graph OnednnLibrary::fuse(Graph graph) const {
  FusionRules rules;
  rules.activation = {"convolution", "linear", "batch_norm", "add"};
  rules.gelu = {"linear"};
  rules.linear_residual = true;
  rules.mask = {"convolution_input_gradient", "linear_input_gradient", "average_pool_gradient",
                "max_pool_gradient"};
  rules.norm_residual = rules.norm_gradient = rules.row_norm_gradient = true;
  rules.grouped_updates = true;
  rules.cast_after_embedding = true;
  return assay::fuse(graph, rules);
}

std::string OnednnLibrary::unsupported(const Graph& graph, const Node& node) const {
  if (entry(node.op->name()) == nullptr) {
    return fmt::format("[{}] {}: this backend has no kernel for the op", node.op->name(), node.name);
  }
  bool bf16 = false;
  const auto check = [&](std::span<const ValueId> values) {
    for (const ValueId v : values) {
      if (v == none || graph.value(v).opaque) continue;
      if (graph.value(v).type.dtype == DType::f64) return true;
      bf16 = bf16 || graph.value(v).type.dtype == DType::bf16;
    }
    return false;
  };
  if (check(node.inputs) || check(node.outputs)) {
    return fmt::format("[{}] {}: got f64, for which oneDNN has no kernels on CPUs", node.op->name(),
                       node.name);
  }
  constexpr std::size_t addend = 3;
  if (node.op->name() == "linear_input_gradient" && node.inputs.size() > addend &&
      node.inputs[addend] != none) {
    return fmt::format("[{}] {}: got a fused addend, and this backend adds it by itself", node.op->name(),
                       node.name);
  }
  if (!attribute_of_joined(*node.op, node.attributes).empty()) {
    return fmt::format(
        "[{}] {}: got joined projections, and this backend makes queries, keys and values apart",
        node.op->name(), node.name);
  }
  constexpr std::size_t mask = 5;
  if (node.op->name() == "batch_norm" && node.outputs.size() > mask && node.outputs[mask] != none) {
    return fmt::format("[{}] {}: is to save a mask, and this backend's gradient reads what the ReLU gave",
                       node.op->name(), node.name);
  }
  if (bf16 && !has_bf16()) {
    return fmt::format("[{}] {}: got bf16, for which this CPU has no instructions (AVX-512 BF16 or AMX)",
                       node.op->name(), node.name);
  }
  return {};
}

Format OnednnLibrary::plain(const TensorType& type) const { return to_format(row_major(type)); }

// In order, so that formats propagate from the images to the loss and back. Exceptions: the bf16 copy of a
// parameter takes the format that its readers chose, a parameter takes that of its gradient, and a dropout
// mask takes that of its operand.
bool OnednnLibrary::leads(const Graph& graph, const Node& node) const {
  if (node.op->name() == "dropout_mask") return false;
  return node.op->name() != "cast" || graph.value(node.inputs[0]).role != Role::parameter;
}

Lowered OnednnLibrary::lower(const Graph& graph, NodeId id, const Offer& offer) {
  const Node& node = graph.node(id);
  const OpEntry* found = entry(node.op->name());
  if (found == nullptr) throw Unsupported(unsupported(graph, node));
  return found->lower(Request(context_, graph, node, offer));
}

std::unique_ptr<Kernel> OnednnLibrary::reorder(const TensorType& type, const Format& from, const Format& to) {
  return make_reorder(context_, type, layout_of(from), layout_of(to));
}

// If only the next weight gradient reads the gradient of a pool, that gradient is never written to memory.
void OnednnLibrary::compact(std::vector<Scheduled>& kernels) {
  for (std::size_t i = 1; i < kernels.size(); ++i) {
    const auto* pool = dynamic_cast<const PoolGradient*>(kernels[i - 1].kernel);
    auto* reader = dynamic_cast<FirstLayerGradient*>(kernels[i].kernel);
    if (pool == nullptr || reader == nullptr || !reader->read_rows_of(*pool, kernels[i - 1].node)) continue;
    kernels[i].op += " + " + kernels[i - 1].op;
    kernels[i].touched.add(kernels[i - 1].touched);
    kernels.erase(kernels.begin() + static_cast<std::ptrdiff_t>(i - 1));
  }
}

const OpEntry* OnednnLibrary::entry(std::string_view op) const { return find_entry(op); }

std::string PrimitivesLibrary::unsupported(const Graph& graph, const Node& node) const {
  if (is_fused(node)) {
    return fmt::format("[{}] {}: got a fused op, and mode primitives runs one op after another",
                       node.op->name(), node.name);
  }
  return OnednnLibrary::unsupported(graph, node);
}

const OpEntry* PrimitivesLibrary::entry(std::string_view op) const { return primitives::find_entry(op); }

std::unique_ptr<KernelLibrary> make_kernel_library(const CompileOptions& options) {
  return make_kernel_library_of_ranks(options, nullptr);
}

std::unique_ptr<KernelLibrary> make_kernel_library_of_ranks(const CompileOptions& options,
                                                            std::shared_ptr<collectives::Exchange> exchange) {
  if (options.mode == primitives_mode)
    return std::make_unique<PrimitivesLibrary>(options.threads, std::move(exchange));
  return std::make_unique<OnednnLibrary>(options.threads, std::move(exchange));
}

bool has_bf16() { return dnnl_get_effective_cpu_isa() >= dnnl_cpu_isa_avx512_core_bf16; }

}  // namespace assay::onednn
