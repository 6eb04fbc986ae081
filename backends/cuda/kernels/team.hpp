// The threads that work on one row together: a block on the device; on the host a single one, or, in tests, fibres.
#pragma once

#include <cstdint>

#include "backends/cuda/kernels/portable.hpp"

namespace assay::cuda {

#if !defined(__CUDACC__)
// A team of more than one thread on the host. `rank`: of the thread that calls.
class HostTeam {
 public:
  virtual ~HostTeam() = default;
  virtual int size() const = 0;
  virtual float sum(int rank, float value,
                    int lanes) = 0;  // over the threads of the same rank modulo `lanes`
  virtual float max(int rank, float value) = 0;
  virtual std::int32_t before(int rank, std::int32_t value) = 0;
  virtual void wait(int rank) = 0;
};
#endif

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
  // The sum over the threads of an equal rank modulo `lanes`, a power of two up to 32.
  __device__ float sum_of_lane(float value, int lanes) const {
    for (int step = 16; step >= lanes; step /= 2) value += __shfl_xor_sync(0xffffffffU, value, step);
    if (size() == 32) return value;
    const int lane = rank() % lanes;
    __syncthreads();  // who still reads the last answer
    if (rank() % 32 < lanes) partial_[rank() / 32 * lanes + lane] = value;
    __syncthreads();
    value = partial_[lane];
    for (int warp = 1; warp < size() / 32; ++warp) value += partial_[warp * lanes + lane];
    return value;
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
  Team() = default;
  Team(HostTeam& team, int rank) : team_(&team), rank_(rank) {}
  int rank() const { return rank_; }
  int size() const { return team_ == nullptr ? 1 : team_->size(); }
  float sum(float value) const { return sum_of_lane(value, 1); }
  float max(float value) const { return team_ == nullptr ? value : team_->max(rank_, value); }
  float sum_of_lane(float value, int lanes) const {
    return team_ == nullptr ? value : team_->sum(rank_, value, lanes);
  }
  std::int32_t before(std::int32_t value) const { return team_ == nullptr ? 0 : team_->before(rank_, value); }
  void wait() const {
    if (team_ != nullptr) team_->wait(rank_);
  }

 private:
  HostTeam* team_ = nullptr;
  int rank_ = 0;
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
