// The backend `cuda`: modes eager (one launch per op, plain layouts, tensors allocated when made), graph
// (layouts chosen for the whole graph, fused, planned, the whole step captured in one CUDA graph, whose branches run side by
// side), in-order (the same, one kernel after the other), primitives (only NVIDIA's libraries, as their documentation shows
// them) and primitives-captured (the same calls as one graph of CUDA: the base of the tax).
#pragma once

#include "backends/cuda/device.hpp"
#include "backends/cuda/gpu/nccl.hpp"
#include "harness/worker/backend.hpp"

namespace assay::cuda {

class CudaBackend final : public Backend {
 public:
  BackendInfo info() const override;
  bool has_ranks() const override { return true; }
  std::string unsupported(const Program& program, const CompileOptions& options) const override;
  std::unique_ptr<Executable> compile(const Program& program, const CompileOptions& options) override;

 private:
  // True if the program that was compiled last is in a bare mode.
  bool bare_ = false;
  std::string outside_of_library_;
  std::shared_ptr<Choices> choices_;  // of that program; null before the first
  std::shared_ptr<Nccl> ranks_;       // null: it has not trained with other ranks
};

}  // namespace assay::cuda
