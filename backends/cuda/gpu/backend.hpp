// The backend `cuda`: modes eager (one launch an op, plain layouts, a tensor allocated when it is made),
// graph (layouts over the whole graph, fused, planned, the whole step captured in one CUDA graph) and
// primitives (NVIDIA's libraries as their documentation shows them: the bare library, which the others are
// compared with).
#pragma once

#include "harness/worker/backend.hpp"

namespace assay::cuda {

class CudaBackend final : public Backend {
 public:
  BackendInfo info() const override;
  std::string unsupported(const Program& program, const CompileOptions& options) const override;
  std::unique_ptr<Executable> compile(const Program& program, const CompileOptions& options) override;

 private:
  // Of the program that was compiled last.
  bool bare_ = false;
  std::string outside_of_library_;
};

}  // namespace assay::cuda
