// The threads that work on one row together: a block on the device, a single one on the host.
#pragma once

#include <cstdint>

#include "backends/cuda/kernels/portable.hpp"

namespace assay::cuda {

// All threads of a team call the methods in the same order; all get the same result.
class Team {
 public:
  static constexpr int max_threads = 256;

#if defined(__CUDACC__)
  // partial: max_threads floats of shared memory.
  __device__ explicit Team(float* partial) : partial_(partial) {}
  __device__ int rank() const { return static_cast<int>(threadIdx.x); }
  __device__ int size() const { return static_cast<int>(blockDim.x); }

  __device__ float sum(float value) const {
    for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffU, value, step);
    return over_warps(value, [](float a, float b) { return a + b; });
  }
  __device__ float max(float value) const {
    for (int step = 16; step > 0; step /= 2) {
      value = fmaxf(value, __shfl_xor_sync(0xffffffffU, value, step));
    }
    return over_warps(value, [](float a, float b) { return fmaxf(a, b); });
  }
  // The sum of the values of the threads of a lower rank.
  __device__ std::int32_t before(std::int32_t value) const {
    auto* const values = reinterpret_cast<std::int32_t*>(partial_);
    __syncthreads();  // who still reads the last answer
    values[rank()] = value;
    __syncthreads();
    std::int32_t sum = 0;
    for (int i = 0; i < rank(); ++i) sum += values[i];
    return sum;
  }
  // Makes one thread's writes visible to the others' later reads.
  __device__ void wait() const { __syncthreads(); }

 private:
  template <typename Combine>
  __device__ float over_warps(float value, const Combine& combine) const {
    if (size() == 32) return value;
    __syncthreads();  // who still reads the last answer
    if (rank() % 32 == 0) partial_[rank() / 32] = value;
    __syncthreads();
    value = partial_[0];
    for (int warp = 1; warp < size() / 32; ++warp) value = combine(value, partial_[warp]);
    return value;
  }

  float* partial_;
#else
  int rank() const { return 0; }
  int size() const { return 1; }
  float sum(float value) const { return value; }
  float max(float value) const { return value; }
  std::int32_t before(std::int32_t) const { return 0; }
  void wait() const {}
#endif
};

// Marks a body that takes a team: it runs where the team runs.
#if defined(__CUDACC__)
#define ASSAY_TEAM __device__
#else
#define ASSAY_TEAM
#endif

// A team of one thread, on the device, too.
class Alone {
 public:
  ASSAY_TEAM int rank() const { return 0; }
  ASSAY_TEAM int size() const { return 1; }
  ASSAY_TEAM float sum(float value) const { return value; }
  ASSAY_TEAM float max(float value) const { return value; }
};

}  // namespace assay::cuda
