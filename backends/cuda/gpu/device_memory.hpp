// Memory of the GPU, allocated in the order of a stream, and the transfer of batches to it: from pinned host
// memory, on a separate stream, so that a copy overlaps with the previous step.
#pragma once

#include <cuda_runtime_api.h>

#include <map>
#include <vector>

#include "backends/cuda/gpu/handles.hpp"
#include "backends/cuda/workspace.hpp"
#include "harness/engine/memory.hpp"

namespace assay::cuda {

class DeviceMemory final : public Memory {
 public:
  // Borrows the stream. limit: the maximum number of bytes at a time; 0: the whole device. landings: how many batches
  // can be on their way. Four are the inputs and the labels of two steps: a copy waits only for the step before the
  // last one.
  DeviceMemory(cudaStream_t stream, std::int64_t limit, std::size_t landings = 4);
  ~DeviceMemory() override;
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  // As cudaMalloc aligns; cuBLASLt and cuDNN ask for it.
  std::int64_t alignment() const override { return workspace_alignment; }
  void* allocate(std::int64_t bytes, const char* purpose) override;
  void release(void* pointer) noexcept override;
  void clear(void* pointer, std::int64_t bytes) override;
  void copy(void* to, const void* from, std::int64_t bytes) override;
  void put(void* to, const void* host, std::int64_t bytes) override;
  const void* land(const void* host, std::int64_t bytes) override;
  void fetch(void* host, const void* from, std::int64_t bytes) override;
  std::map<std::string, std::int64_t> usage() const override;
  // The maximum of bytes that were allocated at a time.
  std::int64_t peak() const { return peak_; }
  // After a search on trial buffers: gives free memory back to the device, and leaves them out of the peak. before:
  // the peak before the search.
  void forget_trial(std::int64_t before);

 private:
  struct Landing {
    void* pinned = nullptr;
    void* device = nullptr;
    std::int64_t bytes = 0;
    Event copied{cudaEventDisableTiming};  // the batch is on the device
    Event read{cudaEventDisableTiming};    // the batch has been read there
  };
  void grow(Landing& place, std::int64_t bytes);

  cudaStream_t stream_;
  OwnedStream copies_;
  cudaMemPool_t pool_ = nullptr;
  std::int64_t limit_, allocated_ = 0, peak_ = 0;
  std::map<void*, std::int64_t> sizes_;
  std::vector<Landing> landings_;
  std::size_t next_ = 0;
  Landing* last_ = nullptr;
};

// Enqueues the write of a few bytes (at most 16), which are passed with the launch.
void put_bytes(cudaStream_t stream, void* to, const void* host, std::int64_t bytes);

}  // namespace assay::cuda
