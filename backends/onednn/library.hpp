// oneDNN as a kernel library for the shared executor.
#pragma once

#include <memory>

#include "backends/collectives/exchange.hpp"
#include "backends/onednn/lowering.hpp"
#include "harness/engine/kernel_library.hpp"
#include "harness/worker/backend.hpp"

namespace assay::onednn {

inline constexpr const char* primitives_mode = "primitives";

// Modes eager and graph: oneDNN's primitives, and our own loops where they are faster.
class OnednnLibrary : public KernelLibrary {
 public:
  // Sets the size of the OpenMP team of this process: oneDNN has no other setting for its threads.
  // `exchange`: with the other ranks; null for one rank.
  explicit OnednnLibrary(int threads, std::shared_ptr<collectives::Exchange> exchange = nullptr);

  Graph fuse(Graph graph) const override;
  std::string unsupported(const Graph& graph, const Node& node) const override;
  Format plain(const TensorType& type) const override;
  bool leads(const Graph& graph, const Node& node) const override;
  Lowered lower(const Graph& graph, NodeId node, const Offer& offer) override;
  std::unique_ptr<Kernel> reorder(const TensorType& type, const Format& from, const Format& to) override;
  void compact(std::vector<Scheduled>& kernels) override;
  bool keeps_constants() const override { return true; }
  std::int64_t agree(std::int64_t value) override { return exchange_ ? exchange_->agree(value) : value; }
  GradientExchange* gradient_exchange() override { return bare_exchange_.get(); }

 protected:
  // Null if the mode does not have the op.
  virtual const OpEntry* entry(std::string_view op) const;

 private:
  std::shared_ptr<collectives::Exchange> exchange_;
  std::unique_ptr<GradientExchange> bare_exchange_;  // of exchange_; null for one rank
  Context context_;
};

// Mode primitives: oneDNN as in its documentation. One op after another as primitives, no fusion, each tensor
// in its own memory.
class PrimitivesLibrary final : public OnednnLibrary {
 public:
  using OnednnLibrary::OnednnLibrary;

  Graph fuse(Graph graph) const override { return graph; }
  std::string unsupported(const Graph& graph, const Node& node) const override;
  void compact(std::vector<Scheduled>&) override {}
  bool keeps_constants() const override { return false; }
  Sharing sharing() const override { return Sharing::naive; }

 protected:
  const OpEntry* entry(std::string_view op) const override;
};

// The library of options.mode. The backend uses it, and so do the conformance suite and the benchmarks of
// ops.
std::unique_ptr<KernelLibrary> make_kernel_library(const CompileOptions& options);
// For a program of several ranks, whose gradients go through `exchange`.
std::unique_ptr<KernelLibrary> make_kernel_library_of_ranks(const CompileOptions& options,
                                                            std::shared_ptr<collectives::Exchange> exchange);

// Whether this CPU multiplies bf16 in hardware.
bool has_bf16();

}  // namespace assay::onednn
