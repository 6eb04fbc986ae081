// The backend `onednn`: modes eager (op by op, plain layouts, each tensor allocated when it is made), graph
// (formats chosen for the whole graph, fused, planned, made once) and primitives (oneDNN as in its
// documentation: the bare library, with which the others are compared).
#pragma once

#include "harness/worker/backend.hpp"

namespace assay::onednn {

class OnednnBackend final : public Backend {
 public:
  BackendInfo info() const override;
  std::string unsupported(const Program& program, const CompileOptions& options) const override;
  std::unique_ptr<Executable> compile(const Program& program, const CompileOptions& options) override;

 private:
  std::string outside_of_library_;  // for mode primitives, of the last compiled program
};

}  // namespace assay::onednn
