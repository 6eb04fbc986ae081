// The oracle: naive kernels, always built, in fp64, fp32 and emulated bf16.
#pragma once

#include "harness/worker/backend.hpp"

namespace assay::reference {

class ReferenceBackend final : public Backend {
 public:
  BackendInfo info() const override;
  std::string unsupported(const Program& program, const CompileOptions& options) const override;
  std::unique_ptr<Executable> compile(const Program& program, const CompileOptions& options) override;

 private:
  int threads_ = 0;  // of the last compile
};

}  // namespace assay::reference
