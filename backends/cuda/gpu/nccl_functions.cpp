#include "backends/cuda/gpu/nccl_functions.hpp"

#include <dlfcn.h>

#include <fmt/format.h>

#include "harness/worker/backend.hpp"

namespace assay::cuda {
namespace {

constexpr const char* remedy =
    "assay setup cuda, or name the folder of NCCL 2 for CUDA 13 in LD_LIBRARY_PATH";

template <typename Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  if (function == nullptr)
    throw Unavailable(fmt::format("[ranks] libnccl.so.2 has no {}, so it is too old: {}", name, remedy));
}

NcclFunctions load() {
  void* const library = ::dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw Unavailable(fmt::format("[ranks] {}: {}", ::dlerror(), remedy));
  NcclFunctions functions{};
  find(library, "ncclGetVersion", functions.get_version);
  find(library, "ncclGetErrorString", functions.get_error_string);
  find(library, "ncclGetLastError", functions.get_last_error);
  find(library, "ncclGetUniqueId", functions.get_unique_id);
  find(library, "ncclCommInitRank", functions.comm_init_rank);
  find(library, "ncclCommGetAsyncError", functions.comm_get_async_error);
  find(library, "ncclCommAbort", functions.comm_abort);
  find(library, "ncclCommDestroy", functions.comm_destroy);
  find(library, "ncclAllReduce", functions.all_reduce);
  find(library, "ncclBroadcast", functions.broadcast);
  return functions;
}

}  // namespace

const NcclFunctions& nccl_functions() {
  static const NcclFunctions functions = load();
  return functions;
}

}  // namespace assay::cuda
