// CUDA as a kernel library for the shared executor.
#pragma once

#include <string_view>

#include "backends/cuda/bucket_exchange.hpp"
#include "backends/cuda/lowering.hpp"
#include "harness/engine/kernel_library.hpp"
#include "harness/worker/backend.hpp"

namespace assay::cuda {

inline constexpr const char* primitives_mode = "primitives";
inline constexpr const char* captured_primitives_mode = "primitives-captured";
inline constexpr const char* in_order_mode = "in-order";
// Whether the mode runs the libraries alone.
bool is_bare(std::string_view mode);

// Modes eager, graph and in-order: NVIDIA's libraries for products, convolutions and the LSTM, kernels of our own for
// the rest. A step of the last two is one graph of CUDA, in which a kernel waits for those whose bytes it uses, or, with
// `in_order` or several ranks, for the one before.
class CudaLibrary : public KernelLibrary {
 public:
  CudaLibrary(std::unique_ptr<Device> device, bool tf32, bool in_order = false);

  Graph fuse(Graph graph) const override;
  Memory& memory() const override { return device_->memory(); }
  std::string unsupported(const Graph& graph, const Node& node) const override;
  Format plain(const TensorType& type) const override;
  bool leads(const Graph& graph, const Node& node) const override;
  Lowered lower(const Graph& graph, NodeId node, const Offer& offer) override;
  std::unique_ptr<Kernel> reorder(const TensorType& type, const Format& from, const Format& to) override;
  void compact(std::vector<Scheduled>& kernels) override;
  std::unique_ptr<Recording> record(std::span<Kernel* const> kernels, const Needs& needs) override;
  std::unique_ptr<Recording> record_steps(std::span<Kernel* const> kernels, const Needs& needs,
                                          std::int64_t steps,
                                          const std::function<void(std::int64_t)>& bind) override;
  std::int64_t reuse_distance() const override;
  void synchronize() override { device_->synchronize(); }
  bool keeps_constants() const override { return true; }
  std::int64_t agree(std::int64_t value) override;
  GradientExchange* gradient_exchange() override { return exchange_.get(); }

 protected:
  // Null where the mode does not have the op.
  virtual const OpEntry* entry(std::string_view op) const;
  Context& context() { return context_; }

 private:
  void add_step(std::vector<GraphPart>& parts, std::span<Kernel* const> kernels, const Needs& needs,
                const std::function<void()>& bind) const;

  std::unique_ptr<Device> device_;
  std::unique_ptr<BucketExchange> exchange_;  // null for one rank
  Context context_;
  bool in_order_;
  std::vector<std::unique_ptr<Kernel>> joined_;  // made by compact()
};

// Modes primitives and primitives-captured: NVIDIA's libraries as their documentation shows them. One op after another,
// no fusion, each tensor in memory of its own; with `captured`, the calls of a step are one graph of CUDA.
class PrimitivesLibrary final : public CudaLibrary {
 public:
  PrimitivesLibrary(std::unique_ptr<Device> device, bool tf32, bool captured = false);

  Graph fuse(Graph graph) const override;
  std::string unsupported(const Graph& graph, const Node& node) const override;
  std::unique_ptr<Kernel> reorder(const TensorType& type, const Format& from, const Format& to) override;
  void compact(std::vector<Scheduled>&) override {}
  std::unique_ptr<Recording> record(std::span<Kernel* const> kernels, const Needs& needs) override;
  bool keeps_constants() const override { return false; }
  Sharing sharing() const override { return Sharing::naive; }

 protected:
  const OpEntry* entry(std::string_view op) const override;

 private:
  bool captured_;
};

// The rewriting of a graph, and the reason if a node cannot be lowered, in modes eager, graph and in-order: decided
// without a device.
Graph fused(const Graph& graph);
std::string reason_against(const Graph& graph, const Node& node);
// With the entry that a mode has for the op, which may be null.
std::string reason_against(const Graph& graph, const Node& node, const OpEntry* entry);

// The library of options.mode, also used by the conformance suite and the benchmarks of the ops. Throws
// Unavailable without a device.
std::unique_ptr<KernelLibrary> make_kernel_library(const CompileOptions& options);
// `choices` is filled while nodes are lowered. `ranks`: null for one rank.
std::unique_ptr<KernelLibrary> make_kernel_library(const CompileOptions& options,
                                                   std::shared_ptr<Choices> choices,
                                                   std::shared_ptr<Nccl> ranks = nullptr);

// Why a GPU of this compute capability cannot run a precision; empty if it can.
std::string reason_against(PrecisionKind precision, int major, int minor);

}  // namespace assay::cuda
