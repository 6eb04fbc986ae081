// Blocks of threads that keep registers from one phase to the next and multiply small matrices by warps. Each phase is a body that
// all threads run; on the host they run it one after the other.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "backends/cuda/kernels/launch.hpp"

namespace assay::cuda {

inline constexpr int warp_threads = 32;

// The fragments of a product d (16, 8) += a (16, 16) b (16, 8) of bf16 with sums in f32, as mma.sync.m16n8k16 divides them among
// the 32 threads of a warp ("Matrix Fragments for mma.m16n8k16" in the PTX ISA). With group = lane / 4 and pair = lane % 4 * 2:
// a holds the columns pair, pair + 1 of the rows group and group + 8, then the columns pair + 8, pair + 9 of both; b the rows pair,
// pair + 1 of column group, then pair + 8, pair + 9; d the columns pair, pair + 1 of row group, then of row group + 8.
struct MatrixA {
  std::uint32_t of[4];
};
struct MatrixB {
  std::uint32_t of[2];
};
struct MatrixD {
  float of[4];
};

// Two neighbours in one register, the first one in the lower half.
ASSAY_HD inline std::uint32_t pair_of(Bf16 first, Bf16 second) {
  return static_cast<std::uint32_t>(first.bits) | static_cast<std::uint32_t>(second.bits) << 16;
}

#if defined(__CUDACC__)
template <typename Registers>
class Block {
 public:
  __device__ explicit Block(Registers& registers) : mine_(registers) {}

  // body(thread, registers)
  template <typename Body>
  __device__ void each(const Body& body) const {
    body(static_cast<int>(threadIdx.x), mine_);
  }
  // What was written to memory before is there for all threads after it.
  __device__ void wait() const { __syncthreads(); }
  // Exchanges value(registers), an f32, with the thread of the same warp whose number differs by `bit`.
  template <typename Value>
  __device__ void exchange(int bit, const Value& value) const {
    float& mine = value(mine_);
    mine = __shfl_xor_sync(0xffffffffU, mine, bit);
  }
  // By each warp: d(registers) += a(registers) b(thread).
  template <typename A, typename B, typename D>
  __device__ void multiply(const A& a, const B& b, const D& d) const {
    const MatrixA& left = a(mine_);
    const MatrixB right = b(static_cast<int>(threadIdx.x));
    MatrixD& sum = d(mine_);
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
        : "+f"(sum.of[0]), "+f"(sum.of[1]), "+f"(sum.of[2]), "+f"(sum.of[3])
        : "r"(left.of[0]), "r"(left.of[1]), "r"(left.of[2]), "r"(left.of[3]), "r"(right.of[0]),
          "r"(right.of[1]));
#else
    __trap();  // no GPU before 8.0 has bf16, which is refused there
#endif
  }

 private:
  Registers& mine_;
};

template <typename Body>
__global__ void __launch_bounds__(Body::threads, 1) each_block(const __grid_constant__ Body body) {
  __shared__ typename Body::Shared shared;
  typename Body::Registers registers;
  body(Block<typename Body::Registers>(registers), shared, static_cast<std::int64_t>(blockIdx.x));
}
#else
template <typename Registers>
class Block {
 public:
  explicit Block(int threads) : all_(static_cast<std::size_t>(threads)) {}

  template <typename Body>
  void each(const Body& body) {
    for (std::size_t thread = 0; thread < all_.size(); ++thread) body(static_cast<int>(thread), all_[thread]);
  }
  void wait() {}
  template <typename Value>
  void exchange(int bit, const Value& value) {
    for (std::size_t thread = 0; thread < all_.size(); ++thread) {
      const std::size_t other = thread ^ static_cast<std::size_t>(bit);
      if (thread < other) std::swap(value(all_[thread]), value(all_[other]));
    }
  }
  template <typename A, typename B, typename D>
  void multiply(const A& a, const B& b, const D& d) {
    for (std::size_t first = 0; first < all_.size(); first += warp_threads) {
      float left[16][16], right[16][8];
      const auto spread = [](std::uint32_t pair, float& low, float& high) {
        low = widen(Bf16{static_cast<std::uint16_t>(pair)});
        high = widen(Bf16{static_cast<std::uint16_t>(pair >> 16)});
      };
      for (int lane = 0; lane < warp_threads; ++lane) {
        const std::size_t thread = first + static_cast<std::size_t>(lane);
        const int group = lane / 4, pair = lane % 4 * 2;
        const MatrixA& of_a = a(all_[thread]);
        const MatrixB of_b = b(static_cast<int>(thread));
        for (int half = 0; half < 2; ++half) {
          const int column = pair + 8 * half;
          spread(of_a.of[2 * half], left[group][column], left[group][column + 1]);
          spread(of_a.of[2 * half + 1], left[group + 8][column], left[group + 8][column + 1]);
          spread(of_b.of[half], right[column][group], right[column + 1][group]);
        }
      }
      for (int lane = 0; lane < warp_threads; ++lane) {
        const int group = lane / 4, pair = lane % 4 * 2;
        MatrixD& sum = d(all_[first + static_cast<std::size_t>(lane)]);
        for (int place = 0; place < 4; ++place) {
          const int row = group + place / 2 * 8, column = pair + place % 2;
          for (int k = 0; k < 16; ++k) sum.of[place] += left[row][k] * right[k][column];
        }
      }
    }
  }

 private:
  std::vector<Registers> all_;
};
#endif

// body(block, shared, i) for i in [0, blocks), by Body::threads threads that share a Body::Shared and keep Body::Registers each.
template <typename Body>
void for_each_block(Stream stream, std::int64_t blocks, const Body& body) {
  if (blocks <= 0) return;
#if defined(__CUDACC__)
  each_block<<<static_cast<unsigned>(blocks), Body::threads, 0, static_cast<cudaStream_t>(stream.handle)>>>(
      body);
  ASSAY_CUDA(cudaGetLastError());
#else
  launch_on_host(stream, [blocks, body] {
    for (std::int64_t i = 0; i < blocks; ++i) {
      Block<typename Body::Registers> block(Body::threads);
      auto shared = std::make_unique<typename Body::Shared>();
      body(block, *shared, i);
    }
  });
#endif
}

}  // namespace assay::cuda
