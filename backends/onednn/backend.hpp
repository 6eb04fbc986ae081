// The backend `onednn`: modes eager (one primitive at a time, plain layouts, a tensor allocated when it is
// made) and graph (formats over the whole graph, fused, planned, made once).
#pragma once

#include "harness/worker/backend.hpp"

namespace assay::onednn {

class OnednnBackend final : public Backend {
 public:
  BackendInfo info() const override;
  std::string unsupported(const Program& program, const CompileOptions& options) const override;
  std::unique_ptr<Executable> compile(const Program& program, const CompileOptions& options) override;
};

}  // namespace assay::onednn
