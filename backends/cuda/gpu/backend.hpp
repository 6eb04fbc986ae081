// The backend `cuda`: modes eager (one launch per op, plain layouts, tensors allocated when made) and graph
// (layouts chosen for the whole graph, fused, planned, the whole step captured in one CUDA graph).
#pragma once

#include "harness/worker/backend.hpp"

namespace assay::cuda {

class CudaBackend final : public Backend {
 public:
  BackendInfo info() const override;
  std::string unsupported(const Program& program, const CompileOptions& options) const override;
  std::unique_ptr<Executable> compile(const Program& program, const CompileOptions& options) override;
};

}  // namespace assay::cuda
