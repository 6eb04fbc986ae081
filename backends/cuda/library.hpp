// CUDA as a kernel library for the shared executor.
#pragma once

#include "backends/cuda/lowering.hpp"
#include "harness/engine/kernel_library.hpp"
#include "harness/worker/backend.hpp"

namespace assay::cuda {

class CudaLibrary final : public KernelLibrary {
 public:
  CudaLibrary(std::unique_ptr<Device> device, bool tf32);

  Graph fuse(Graph graph) const override;
  Memory& memory() const override { return device_->memory(); }
  std::string unsupported(const Graph& graph, const Node& node) const override;
  Format plain(const TensorType& type) const override;
  bool leads(const Graph& graph, const Node& node) const override;
  Lowered lower(const Graph& graph, NodeId node, const Offer& offer) override;
  std::unique_ptr<Kernel> reorder(const TensorType& type, const Format& from, const Format& to) override;
  std::unique_ptr<Recording> record(std::span<Kernel* const> kernels) override;
  void synchronize() override { device_->synchronize(); }

 private:
  std::unique_ptr<Device> device_;
  Context context_;
};

// The rewriting of a graph, and the reason if a node cannot be lowered: decided without a device.
Graph fused(const Graph& graph);
std::string reason_against(const Graph& graph, const Node& node);

// The library of the backend, also used by the conformance suite and the benchmarks of the ops. Throws
// Unavailable if there is no device.
std::unique_ptr<KernelLibrary> make_kernel_library(const CompileOptions& options);

}  // namespace assay::cuda
