// Memory of the GPU, allocated in the order of a stream, and the transfer of batches to it: from pinned host
// memory, on a separate stream, with two buffers each, so that a copy overlaps with the previous step.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <map>

#include "harness/engine/memory.hpp"

namespace assay::cuda {

class DeviceMemory final : public Memory {
 public:
  // Borrows the stream. limit: the maximum number of bytes at a time; 0: the whole device.
  DeviceMemory(cudaStream_t stream, std::int64_t limit);
  ~DeviceMemory() override;
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  void* allocate(std::int64_t bytes, const char* purpose) override;
  void release(void* pointer) noexcept override;
  void clear(void* pointer, std::int64_t bytes) override;
  void copy(void* to, const void* from, std::int64_t bytes) override;
  void put(void* to, const void* host, std::int64_t bytes) override;
  const void* land(const void* host, std::int64_t bytes) override;
  void fetch(void* host, const void* from, std::int64_t bytes) override;
  std::map<std::string, std::int64_t> usage() const override;

 private:
  struct Landing {
    void* pinned = nullptr;
    void* device = nullptr;
    std::int64_t bytes = 0;
    cudaEvent_t copied = nullptr;  // the batch is on the device
    cudaEvent_t read = nullptr;    // the batch has been read there
  };
  void grow(Landing& place, std::int64_t bytes);

  cudaStream_t stream_, copies_ = nullptr;
  std::int64_t limit_, allocated_ = 0, peak_ = 0;
  std::map<void*, std::int64_t> sizes_;
  std::array<Landing, 2> landings_{};
  std::size_t next_ = 0;
  Landing* last_ = nullptr;
};

// Enqueues the write of a few bytes (at most 16), which are passed with the launch.
void put_bytes(cudaStream_t stream, void* to, const void* host, std::int64_t bytes);

}  // namespace assay::cuda
