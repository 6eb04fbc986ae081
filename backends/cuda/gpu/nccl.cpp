#include "backends/cuda/gpu/nccl.hpp"

#include <cstdlib>
#include <stdexcept>

#include <fmt/format.h>

#include "backends/cuda/gpu/check.hpp"
#include "backends/cuda/gpu/nccl_functions.hpp"

namespace assay::cuda {
namespace {

class Communicator final : public Nccl {
 public:
  Communicator(int rank, int world) : nccl_(nccl_functions()), world_(world) {
    ncclUniqueId id{};
    must("ncclGetUniqueId", nccl_.get_unique_id(&id));  // the address of NCCL_COMM_ID, the same on all ranks
    must("ncclCommInitRank", nccl_.comm_init_rank(&communicator_, world, id, rank));
  }
  ~Communicator() override {
    ncclResult_t error = ncclSuccess;
    const bool failed =
        nccl_.comm_get_async_error(communicator_, &error) != ncclSuccess || error != ncclSuccess;
    // Destruction waits for what is enqueued, which never ends once a rank has failed.
    if (failed) {
      nccl_.comm_abort(communicator_);
    } else {
      nccl_.comm_destroy(communicator_);
    }
  }
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int world() const override { return world_; }
  std::string version() const override {
    int number = 0;
    must("ncclGetVersion", nccl_.get_version(&number));
    return fmt::format("{}.{}.{}", number / 10000, number / 100 % 100, number % 100);
  }
  void sum(float* values, std::int64_t count, cudaStream_t stream) override {
    must("ncclAllReduce", nccl_.all_reduce(values, values, static_cast<std::size_t>(count), ncclFloat32,
                                           ncclSum, communicator_, stream));
  }
  void broadcast(std::int64_t* value, cudaStream_t stream) override {
    must("ncclBroadcast", nccl_.broadcast(value, value, 1, ncclInt64, 0, communicator_, stream));
  }

 private:
  void must(const char* call, ncclResult_t result) const {
    if (result == ncclSuccess) return;
    throw std::runtime_error(fmt::format("[ranks] {}: {}: {}", call, nccl_.get_error_string(result),
                                         nccl_.get_last_error(communicator_)));
  }

  const NcclFunctions& nccl_;
  ncclComm_t communicator_ = nullptr;
  int world_;
};

}  // namespace

std::shared_ptr<Nccl> join_nccl(int rank, int world) {
  const char* const address = std::getenv("MASTER_ADDR");
  const char* const port = std::getenv("MASTER_PORT");
  if (address != nullptr && port != nullptr) {
    ::setenv("NCCL_COMM_ID", fmt::format("{}:{}", address, port).c_str(), 0);
  } else if (std::getenv("NCCL_COMM_ID") == nullptr) {
    throw std::runtime_error(
        "[ranks] no address of rank 0 is known: start the ranks with a launcher that sets MASTER_ADDR and "
        "MASTER_PORT, or set NCCL_COMM_ID");
  }
  // NCCL cannot register buffers of cudaMallocAsync() while a step is captured.
  ::setenv("NCCL_GRAPH_REGISTER", "0", 0);
  ASSAY_CUDA(cudaSetDevice(0));
  return std::make_shared<Communicator>(rank, world);
}

}  // namespace assay::cuda
