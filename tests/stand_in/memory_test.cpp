// What the stand-in shows about memory.
#include <cmath>

#include "backends/cuda/gpu/handles.hpp"
#include "backends/cuda/kernels/launch.hpp"
#include "tests/stand_in/scope.hpp"

namespace assay::stand_in {
namespace {

using cuda::OwnedStream;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

float* make(cudaStream_t stream, std::size_t count) {
  void* pointer = nullptr;
  EXPECT_EQ(cudaMallocAsync(&pointer, count * sizeof(float), stream), cudaSuccess);
  return static_cast<float*>(pointer);
}

// Writes 1 to each of the elements.
void write(cudaStream_t stream, float* to, std::int64_t count) {
  cuda::for_each(cuda::Stream{stream}, count, [to](std::int64_t i) { to[i] = 1; });
}

float read(cudaStream_t stream, const float* from) {
  float value = 0;
  EXPECT_EQ(cudaMemcpyAsync(&value, from, sizeof value, cudaMemcpyDeviceToHost, stream), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  return value;
}

TEST(DeviceMemory, IsNanBeforeItIsWrittenAndAlignedToNoMoreThan256) {
  const Scope scope;
  const OwnedStream stream;
  float* const pointer = make(stream.get(), 3);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(pointer) % 512, 256U);
  EXPECT_TRUE(std::isnan(read(stream.get(), pointer)));
  write(stream.get(), pointer, 3);
  EXPECT_EQ(read(stream.get(), pointer), 1);
  cudaFreeAsync(pointer, stream.get());
}

TEST(DeviceMemory, HasWallsAroundIt) {
  begin({});
  {
    const OwnedStream stream;
    float* const pointer = make(stream.get(), 3);
    write(stream.get(), pointer, 4);
    cudaFreeAsync(pointer, stream.get());
  }
  EXPECT_THAT(take_faults(), ElementsAre(HasSubstr("bytes after 12 bytes")));
}

TEST(DeviceMemory, IsSpoiledByItsReleaseInTheOrderOfTheStream) {
  begin({});
  {
    const OwnedStream stream;
    float* const pointer = make(stream.get(), 3);
    float value = 0;
    write(stream.get(), pointer, 3);
    cudaMemcpyAsync(&value, pointer, sizeof value, cudaMemcpyDeviceToHost, stream.get());
    cudaFreeAsync(pointer, stream.get());
    cudaStreamSynchronize(stream.get());
    EXPECT_EQ(value, 1) << "work that was enqueued before the release";
    write(stream.get(), pointer, 3);
  }
  EXPECT_THAT(take_faults(), ElementsAre(HasSubstr("written after their release")));
}

TEST(DeviceMemory, IsLostToOtherStreamsBeforeItsOwnReachesIt) {
  const Scope scope({.order = Order::others_last});
  const OwnedStream stream, other;
  float* const pointer = make(stream.get(), 3);
  write(other.get(), pointer, 3);
  cudaStreamSynchronize(other.get());
  EXPECT_TRUE(std::isnan(read(stream.get(), pointer)));
  cudaFreeAsync(pointer, stream.get());
}

TEST(DeviceMemory, CannotBeFreedTwice) {
  begin({});
  {
    const OwnedStream stream;
    float* const pointer = make(stream.get(), 3);
    EXPECT_EQ(cudaFreeAsync(pointer, stream.get()), cudaSuccess);
    EXPECT_NE(cudaFreeAsync(pointer, stream.get()), cudaSuccess);
  }
  EXPECT_THAT(take_faults(), ElementsAre(HasSubstr("freed before")));
}

TEST(DeviceMemory, HasAnEnd) {
  const Scope scope({.device_bytes = 100});
  const OwnedStream stream;
  float* const pointer = make(stream.get(), 20);
  void* more = nullptr;
  EXPECT_EQ(cudaMallocAsync(&more, 21, stream.get()), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  cudaFreeAsync(pointer, stream.get());
}

TEST(DeviceMemory, IsMissingAtTheChosenAllocation) {
  begin({.fail_at = 2});
  {
    const OwnedStream stream;  // the first allocation
    float* const pointer = make(stream.get(), 1);
    void* more = nullptr;
    EXPECT_EQ(cudaMallocHost(&more, 1), cudaErrorMemoryAllocation);
    EXPECT_EQ(allocations(), 3);
    EXPECT_EQ(held(), "pieces of memory: 1, streams: 1");
    cudaFreeAsync(pointer, stream.get());
  }
  EXPECT_EQ(held(), "");
  EXPECT_THAT(take_faults(), IsEmpty());
}

TEST(PinnedMemory, IsReadWhenTheCopyRuns) {
  begin({.order = Order::others_last});
  {
    const OwnedStream stream;
    void* pinned = nullptr;
    cudaMallocHost(&pinned, sizeof(float));
    float* const pointer = make(stream.get(), 1);
    *static_cast<float*>(pinned) = 2;
    cudaMemcpyAsync(pointer, pinned, sizeof(float), cudaMemcpyHostToDevice, stream.get());
    *static_cast<float*>(pinned) = 3;
    EXPECT_EQ(read(stream.get(), pointer), 3);
    cudaFreeHost(pinned);
    cudaFreeAsync(pointer, stream.get());
  }
  EXPECT_THAT(take_faults(), ElementsAre(HasSubstr("pinned memory was changed before the copy")));
}

}  // namespace
}  // namespace assay::stand_in
