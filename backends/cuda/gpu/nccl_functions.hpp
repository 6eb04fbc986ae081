// The functions of NCCL that this backend calls.
#pragma once

#include <nccl.h>

namespace assay::cuda {

struct NcclFunctions {
  decltype(&::ncclGetVersion) get_version;
  decltype(&::ncclGetErrorString) get_error_string;
  decltype(&::ncclGetLastError) get_last_error;
  decltype(&::ncclGetUniqueId) get_unique_id;
  decltype(&::ncclCommInitRank) comm_init_rank;
  decltype(&::ncclCommGetAsyncError) comm_get_async_error;
  decltype(&::ncclCommAbort) comm_abort;
  decltype(&::ncclCommDestroy) comm_destroy;
  decltype(&::ncclAllReduce) all_reduce;
  decltype(&::ncclBroadcast) broadcast;
};

// Of libnccl.so.2, which is loaded only for several ranks: other cells run where it is missing. Throws Unavailable.
const NcclFunctions& nccl_functions();

}  // namespace assay::cuda
