// Built where NCCL's header is missing.
#include "backends/cuda/gpu/nccl.hpp"
#include "harness/worker/backend.hpp"

namespace assay::cuda {

std::shared_ptr<Nccl> join_nccl(int, int) {
  throw Unavailable("[ranks] the backend was built without NCCL: run scripts/setup --cuda, then build again");
}

}  // namespace assay::cuda
