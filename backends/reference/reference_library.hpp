// The kernels of the oracle: plain layouts, one op at a time, fp64, fp32, and emulated bf16
// and TF32.
#pragma once

#include "backends/reference/thread_pool.hpp"
#include "harness/engine/kernel_library.hpp"
#include "harness/worker/backend.hpp"

namespace assay::reference {

class ReferenceLibrary final : public KernelLibrary {
 public:
  // tf32: matrix ops of fp32 graphs round their operands to TF32 and sum in fp64. A bias and its gradient are
  // not operands of a product, but a bias gradient is summed from the rounded dy: the op has only one dy.
  explicit ReferenceLibrary(int threads, bool tf32 = false) : pool_(threads), tf32_(tf32) {}

  std::string unsupported(const Graph& graph, const Node& node) const override;
  Lowered lower(const Graph& graph, NodeId node, const Offer& offer) override;
  // There is one format per type, so nothing is reordered.
  std::unique_ptr<Kernel> reorder(const TensorType& type, const Format& from, const Format& to) override;

 private:
  ThreadPool pool_;
  bool tf32_;
};

std::unique_ptr<KernelLibrary> make_kernel_library(const CompileOptions& options);

}  // namespace assay::reference
