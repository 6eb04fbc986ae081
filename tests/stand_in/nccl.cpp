// NCCL with ranks that give a share of what this one gives (Conditions::share_of_other_ranks).
#include <cstdlib>
#include <cstring>

#include "backends/cuda/gpu/nccl_functions.hpp"
#include "tests/stand_in/machine.hpp"

struct ncclComm {
  int world = 1;
};

namespace assay::cuda {
namespace {

using stand_in::machine;

ncclResult_t get_version(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}
const char* get_error_string(ncclResult_t result) {
  return result == ncclSuccess ? "no error" : "invalid usage";
}
const char* get_last_error(ncclComm_t) { return "[stand-in]"; }

// As NCCL: the address of rank 0 if the environment has it.
ncclResult_t get_unique_id(ncclUniqueId* id) {
  const char* const address = std::getenv("NCCL_COMM_ID");
  if (address == nullptr) return ncclInvalidUsage;
  std::strncpy(id->internal, address, sizeof id->internal - 1);
  return ncclSuccess;
}
ncclResult_t comm_init_rank(ncclComm_t* communicator, int world, ncclUniqueId id, int rank) {
  if (rank < 0 || rank >= world || id.internal[0] == 0) return ncclInvalidArgument;
  *communicator = new ncclComm{world};
  stand_in::hold("communicators", 1);
  return ncclSuccess;
}
ncclResult_t comm_get_async_error(ncclComm_t, ncclResult_t* error) {
  *error = ncclSuccess;
  return ncclSuccess;
}
ncclResult_t comm_destroy(ncclComm_t communicator) {
  delete communicator;
  stand_in::hold("communicators", -1);
  return ncclSuccess;
}

ncclResult_t all_reduce(const void* from, void* to, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                        ncclComm_t communicator, cudaStream_t stream) {
  if (from != to || type != ncclFloat32 || op != ncclSum || communicator == nullptr)
    return ncclInvalidArgument;
  const float others =
      static_cast<float>(communicator->world - 1) * machine().conditions.share_of_other_ranks;
  stand_in::enqueue(stream, [=] {
    if (!stand_in::check_range(to, static_cast<std::int64_t>(count * sizeof(float)), "ncclAllReduce")) return;
    auto* const values = static_cast<float*>(to);
    for (std::size_t i = 0; i < count; ++i) values[i] += others * values[i];
  });
  return ncclSuccess;
}
// This process is rank 0.
ncclResult_t broadcast(const void*, void*, std::size_t, ncclDataType_t, int root, ncclComm_t, cudaStream_t) {
  return root == 0 ? ncclSuccess : ncclInvalidArgument;
}

}  // namespace

const NcclFunctions& nccl_functions() {
  static constexpr NcclFunctions functions{
      get_version,          get_error_string, get_last_error, get_unique_id, comm_init_rank,
      comm_get_async_error, comm_destroy,     comm_destroy,   all_reduce,    broadcast};
  return functions;
}

}  // namespace assay::cuda
