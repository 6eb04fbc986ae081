// The reference's kernels, in a library that a test changes by overriding.
#pragma once

#include <memory>
#include <utility>

#include "backends/reference/reference_library.hpp"
#include "harness/engine/kernel_library.hpp"

namespace assay::testing {

class ForwardingLibrary : public KernelLibrary {
 public:
  explicit ForwardingLibrary(const CompileOptions& options)
      : inner_(reference::make_kernel_library(options)) {}

  std::string unsupported(const Graph& graph, const Node& node) const override {
    return inner_->unsupported(graph, node);
  }
  Format plain(const TensorType& type) const override { return inner_->plain(type); }
  bool leads(const Graph& graph, const Node& node) const override { return inner_->leads(graph, node); }
  Lowered lower(const Graph& graph, NodeId node, const Offer& offer) override {
    return inner_->lower(graph, node, offer);
  }
  std::unique_ptr<Kernel> reorder(const TensorType& type, const Format& from, const Format& to) override {
    return inner_->reorder(type, from, to);
  }
  void run(std::span<Kernel* const> kernels) override { inner_->run(kernels); }

 private:
  std::unique_ptr<KernelLibrary> inner_;
};

}  // namespace assay::testing
