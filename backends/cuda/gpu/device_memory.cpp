#include "backends/cuda/gpu/device_memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "backends/cuda/gpu/check.hpp"
#include "harness/worker/backend.hpp"

namespace assay::cuda {

DeviceMemory::DeviceMemory(cudaStream_t stream, std::int64_t limit, std::size_t landings)
    : stream_(stream), limit_(limit), landings_(landings) {
  // Freed memory stays in the pool: eager mode uses it again for the next op.
  int device = 0;
  std::uint64_t keep = UINT64_MAX;
  ASSAY_CUDA(cudaGetDevice(&device));
  ASSAY_CUDA(cudaDeviceGetDefaultMemPool(&pool_, device));
  ASSAY_CUDA(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &keep));
}

DeviceMemory::~DeviceMemory() {
  cudaStreamSynchronize(copies_.get());
  cudaStreamSynchronize(stream_);
  for (Landing& place : landings_) {
    if (place.pinned != nullptr) cudaFreeHost(place.pinned);
    if (place.device != nullptr) cudaFreeAsync(place.device, stream_);
  }
}

void* DeviceMemory::allocate(std::int64_t bytes, const char* purpose) {
  bytes = std::max<std::int64_t>(bytes, 1);
  if (limit_ > 0 && allocated_ + bytes > limit_) {
    throw OutOfMemory(
        fmt::format("no memory for {} bytes of {}: {} of the {} bytes that were granted are used; a smaller "
                    "batch needs less",
                    bytes, purpose, allocated_, limit_));
  }
  void* pointer = nullptr;
  const cudaError_t status = cudaMallocAsync(&pointer, static_cast<std::size_t>(bytes), stream_);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    std::size_t free = 0, total = 0;
    ASSAY_CUDA(cudaMemGetInfo(&free, &total));
    throw OutOfMemory(fmt::format(
        "no memory for {} bytes of {}: {} of the device's {} bytes are free; a smaller batch needs less",
        bytes, purpose, free, total));
  }
  check("cudaMallocAsync(&pointer, bytes, stream_)", status);
  sizes_[pointer] = bytes;
  allocated_ += bytes;
  peak_ = std::max(peak_, allocated_);
  return pointer;
}

void DeviceMemory::release(void* pointer) noexcept {
  const auto size = sizes_.find(pointer);
  if (size == sizes_.end()) return;
  allocated_ -= size->second;
  sizes_.erase(size);
  cudaFreeAsync(pointer, stream_);
}

void DeviceMemory::clear(void* pointer, std::int64_t bytes) {
  ASSAY_CUDA(cudaMemsetAsync(pointer, 0, static_cast<std::size_t>(bytes), stream_));
}

void DeviceMemory::copy(void* to, const void* from, std::int64_t bytes) {
  ASSAY_CUDA(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDeviceToDevice, stream_));
}

void DeviceMemory::put(void* to, const void* host, std::int64_t bytes) {
  put_bytes(stream_, to, host, bytes);
}

void DeviceMemory::grow(Landing& place, std::int64_t bytes) {
  if (bytes <= place.bytes) return;
  ASSAY_CUDA(cudaStreamSynchronize(copies_.get()));
  ASSAY_CUDA(cudaStreamSynchronize(stream_));
  if (place.pinned != nullptr) ASSAY_CUDA(cudaFreeHost(place.pinned));
  place.pinned = nullptr;
  if (place.device != nullptr) release(place.device);
  place.device = nullptr;
  place.bytes = 0;
  ASSAY_CUDA(cudaMallocHost(&place.pinned, static_cast<std::size_t>(bytes)));
  place.device = allocate(bytes, "batches on their way");
  ASSAY_CUDA(cudaStreamSynchronize(stream_));  // the other stream will write to it
  place.bytes = bytes;
}

const void* DeviceMemory::land(const void* host, std::int64_t bytes) {
  // All readers of the last batch have been enqueued.
  if (last_ != nullptr) ASSAY_CUDA(cudaEventRecord(last_->read.get(), stream_));
  Landing& place = landings_[next_];
  next_ = (next_ + 1) % landings_.size();
  last_ = &place;
  grow(place, bytes);
  ASSAY_CUDA(cudaEventSynchronize(place.copied.get()));
  std::memcpy(place.pinned, host, static_cast<std::size_t>(bytes));
  ASSAY_CUDA(cudaStreamWaitEvent(copies_.get(), place.read.get(), 0));
  ASSAY_CUDA(cudaMemcpyAsync(place.device, place.pinned, static_cast<std::size_t>(bytes),
                             cudaMemcpyHostToDevice, copies_.get()));
  ASSAY_CUDA(cudaEventRecord(place.copied.get(), copies_.get()));
  ASSAY_CUDA(cudaStreamWaitEvent(stream_, place.copied.get(), 0));
  return place.device;
}

void DeviceMemory::fetch(void* host, const void* from, std::int64_t bytes) {
  ASSAY_CUDA(cudaMemcpyAsync(host, from, static_cast<std::size_t>(bytes), cudaMemcpyDeviceToHost, stream_));
  ASSAY_CUDA(cudaStreamSynchronize(stream_));
}

std::map<std::string, std::int64_t> DeviceMemory::usage() const {
  return {{"device_allocated", allocated_}, {"framework_peak", peak_}};
}

void DeviceMemory::forget_trial(std::int64_t before) {
  ASSAY_CUDA(cudaStreamSynchronize(stream_));  // what was freed in its order is free now
  ASSAY_CUDA(cudaMemPoolTrimTo(pool_, 0));
  peak_ = std::max(before, allocated_);
}

}  // namespace assay::cuda
