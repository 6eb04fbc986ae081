#include "backends/cuda/library.hpp"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backends/cuda/choices.hpp"
#include "backends/cuda/joined.hpp"
#include "backends/cuda/primitives/ops.hpp"
#include "harness/graph/passes/fuse.hpp"
#include "harness/graph/passes/walk.hpp"
#include "harness/worker/backend.hpp"

namespace assay::cuda {

CudaLibrary::CudaLibrary(std::unique_ptr<Device> device, bool tf32, bool in_order)
    : device_(std::move(device)),
      exchange_(device_->ranks() != nullptr ? std::make_unique<BucketExchange>(*device_) : nullptr),
      context_{*device_, tf32, false, exchange_.get()},
      // The sums of the ranks' gradients run next to the kernels that follow in the list.
      in_order_(in_order || exchange_ != nullptr) {}

namespace {

// The copies of all parameters come first: neighbours, which compact() joins.
Graph with_copies_first(const Graph& graph) {
  const auto is_first = [&](const Node& node) {
    const bool copies = node.op->name() == "cast" || node.op->name() == "concat";
    return copies && std::ranges::all_of(node.inputs,
                                         [&](ValueId v) { return graph.value(v).role == Role::parameter; });
  };
  GraphCopy copy(graph);
  for (std::size_t v = 0; v < graph.values().size(); ++v) {
    if (graph.values()[v].producer == none) copy.add_value(static_cast<ValueId>(v));
  }
  for (const bool first : {true, false}) {
    for (const Node& node : graph.nodes()) {
      if (is_first(node) == first) copy.add_node(node);
    }
  }
  copy.add_outputs();
  copy.add_updates();
  return copy.take();
}

// The same kernels with the exchange of gradients and without it.
class WithAndWithoutExchange final : public Recording {
 public:
  WithAndWithoutExchange(const BucketExchange& exchange, std::unique_ptr<Recording> with,
                         std::unique_ptr<Recording> without)
      : exchange_(exchange), with_(std::move(with)), without_(std::move(without)) {}
  void run() override { (exchange_.enabled() ? with_ : without_)->run(); }

 private:
  const BucketExchange& exchange_;
  std::unique_ptr<Recording> with_, without_;
};

}  // namespace

Graph fused(const Graph& graph) {
  FusionRules rules;
  rules.activation = {"convolution", "linear", "batch_norm", "add"};
  rules.mask = {"convolution_input_gradient", "linear_input_gradient", "average_pool_gradient",
                "max_pool_gradient"};
  rules.linear_residual = rules.linear_addend = rules.row_norm_gradient = true;
  rules.norm_residual = rules.norm_gradient = rules.norm_mask = rules.norm_statistics = true;
  rules.grouped_updates = rules.joined_projections = true;
  rules.cast_after_embedding = true;
  return with_copies_first(assay::fuse(graph, rules));
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

void CudaLibrary::compact(std::vector<Scheduled>& kernels) { join_neighbours(kernels, joined_); }

// With four, the longest chains of our networks are as short as if no bytes were shared.
std::int64_t CudaLibrary::reuse_distance() const { return in_order_ ? 0 : 4; }

// Adds a step that waits for all of the one before.
void CudaLibrary::add_step(std::vector<GraphPart>& parts, std::span<Kernel* const> kernels,
                           const Needs& needs, const std::function<void()>& bind) const {
  const std::size_t first = parts.size();
  std::vector<std::size_t> before;  // the last parts of that step, which no other part of it needs
  if (in_order_ || needs.empty()) {
    if (first > 0) before.push_back(first - 1);
    parts.push_back({[kernels, bind] {
                       bind();
                       for (Kernel* kernel : kernels) kernel->run();
                     },
                     before});
    return;
  }
  std::vector<bool> is_needed(kernels.size());
  for (const std::vector<std::size_t>& of : needs)
    for (const std::size_t need : of) is_needed[need] = true;
  for (std::size_t k = 0; k < kernels.size() && first > 0; ++k)
    if (!is_needed[k]) before.push_back(first - kernels.size() + k);
  for (std::size_t k = 0; k < kernels.size(); ++k) {
    GraphPart part{[kernel = kernels[k], bind, begins = k == 0] {
                     if (begins) bind();
                     kernel->run();
                   },
                   needs[k].empty() ? before : std::vector<std::size_t>{}};
    for (const std::size_t need : needs[k]) part.needs.push_back(first + need);
    parts.push_back(std::move(part));
  }
}

std::unique_ptr<Recording> CudaLibrary::record(std::span<Kernel* const> kernels, const Needs& needs) {
  // The launch of a graph takes the host about as long as a few launches of kernels.
  constexpr std::size_t min_nodes = 5;
  std::vector<GraphPart> parts;
  add_step(parts, kernels, needs, [] {});
  const auto captured = [&] { return device_->record(parts, min_nodes); };
  if (exchange_ == nullptr) return captured();
  const bool enabled = exchange_->enabled();
  exchange_->set_enabled(false);
  auto without = captured();
  exchange_->set_enabled(true);
  auto with = captured();
  exchange_->set_enabled(enabled);
  if (without == nullptr || with == nullptr) return nullptr;
  return std::make_unique<WithAndWithoutExchange>(*exchange_, std::move(with), std::move(without));
}

std::unique_ptr<Recording> CudaLibrary::record_steps(std::span<Kernel* const> kernels, const Needs& needs,
                                                     std::int64_t steps,
                                                     const std::function<void(std::int64_t)>& bind) {
  std::vector<GraphPart> parts;
  for (std::int64_t step = 0; step < steps; ++step)
    add_step(parts, kernels, needs, [&bind, step] { bind(step); });
  try {
    if (auto recording = device_->record(parts, 1)) return recording;
  } catch (const std::runtime_error& error) {
    throw Unsupported(fmt::format("[time_device] the steps cannot be captured: {}", error.what()));
  }
  throw Unsupported("[time_device] a step has no kernels, or the device cannot capture them");
}

std::int64_t CudaLibrary::agree(std::int64_t value) {
  return exchange_ != nullptr ? exchange_->ranks().first(value) : value;
}

const OpEntry* CudaLibrary::entry(std::string_view op) const { return find_entry(op); }

bool is_bare(std::string_view mode) { return mode == primitives_mode || mode == captured_primitives_mode; }

PrimitivesLibrary::PrimitivesLibrary(std::unique_ptr<Device> device, bool tf32, bool captured)
    : CudaLibrary(std::move(device), tf32, true), captured_(captured) {
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

std::unique_ptr<Recording> PrimitivesLibrary::record(std::span<Kernel* const> kernels, const Needs& needs) {
  return captured_ ? CudaLibrary::record(kernels, needs) : nullptr;
}

const OpEntry* PrimitivesLibrary::entry(std::string_view op) const { return primitives::find_entry(op); }

std::string reason_against(PrecisionKind precision, int major, int minor) {
  const bool tensor_cores = precision == PrecisionKind::bf16 || precision == PrecisionKind::tf32;
  if (!tensor_cores || major >= 8) return {};
  return fmt::format("precision '{}': this GPU has compute capability {}.{}, and {} needs 8.0",
                     to_string(precision), major, minor, to_string(precision));
}

std::unique_ptr<KernelLibrary> make_kernel_library(const CompileOptions& options) {
  return make_kernel_library(options, std::make_shared<Choices>());
}

std::unique_ptr<KernelLibrary> make_kernel_library(const CompileOptions& options,
                                                   std::shared_ptr<Choices> choices,
                                                   std::shared_ptr<Nccl> ranks) {
  auto device = open_device({options.memory_fraction, options.memory_cap, options.deterministic,
                             std::move(choices), std::move(ranks)});
  if (is_bare(options.mode))
    return std::make_unique<PrimitivesLibrary>(std::move(device), options.precision.tf32,
                                               options.mode == captured_primitives_mode);
  return std::make_unique<CudaLibrary>(std::move(device), options.precision.tf32,
                                       options.mode == in_order_mode);
}

}  // namespace assay::cuda
