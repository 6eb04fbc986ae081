// The backend `onednn`: modes eager (op by op, plain layouts, a tensor allocated when it is made), graph
// (formats over the whole graph, fused, planned, made once) and primitives (oneDNN as its documentation shows
// it: the bare library, which the others are compared with).
#pragma once

#include "harness/worker/backend.hpp"

namespace assay::onednn {

class OnednnBackend final : public Backend {
 public:
  BackendInfo info() const override;
  std::string unsupported(const Program& program, const CompileOptions& options) const override;
  std::unique_ptr<Executable> compile(const Program& program, const CompileOptions& options) override;

 private:
  std::string outside_of_library_;  // of the program that was compiled last, for mode primitives
};

}  // namespace assay::onednn
