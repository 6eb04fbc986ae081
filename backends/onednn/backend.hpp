// The backend `onednn`: modes eager (op by op, plain layouts, each tensor allocated when it is made), graph
// (formats chosen for the whole graph, fused, planned, made once) and primitives (oneDNN as in its
// documentation: the bare library, with which the others are compared).
#pragma once

#include <functional>
#include <memory>

#include "backends/collectives/exchange.hpp"
#include "backends/collectives/mpi.hpp"
#include "harness/worker/backend.hpp"

namespace assay::onednn {

class OnednnBackend final : public Backend {
 public:
  // How a worker finds the other ranks.
  using Join = std::function<std::shared_ptr<collectives::Communicator>(int rank, int world)>;

  explicit OnednnBackend(Join join = collectives::join_mpi) : join_(std::move(join)) {}

  BackendInfo info() const override;
  bool has_ranks() const override { return true; }
  std::string unsupported(const Program& program, const CompileOptions& options) const override;
  std::unique_ptr<Executable> compile(const Program& program, const CompileOptions& options) override;

 private:
  Join join_;
  std::shared_ptr<collectives::Exchange> exchange_;  // null: it has not trained with other ranks
  std::string outside_of_library_;                   // for mode primitives, of the last compiled program
};

}  // namespace assay::onednn
