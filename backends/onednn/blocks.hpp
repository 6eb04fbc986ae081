// How our own loops, which are written for floats, process arrays of float or bf16: in blocks, which are
// widened before and rounded after.
#pragma once

#include <algorithm>

#include "backends/onednn/loops/loops.hpp"
#include "backends/onednn/parallel.hpp"
#include "harness/core/numerics.hpp"
#include "harness/core/tensor.hpp"
#include "harness/engine/kernel_library.hpp"

namespace assay::onednn {

// The floats in an array of this format.
inline std::int64_t floats_of(const Format& format) {
  return format.bytes / static_cast<std::int64_t>(sizeof(float));
}

// An element as a float.
inline float as_float(float value) { return value; }
inline float as_float(std::uint16_t bits) { return from_bf16(bits); }

inline constexpr std::int64_t block_elements = 2048;  // 8 KiB of float: a few stay in the first cache

// Memory for one block of an operand or result, on a thread's stack.
class Block {
 public:
  // n <= block_elements elements from element i on: in place, or widened into this block.
  const float* read(const void* data, DType dtype, std::int64_t i, std::int64_t n) {
    if (dtype != DType::bf16) return static_cast<const float*>(data) + i;
    loops().folds.widen(static_cast<const std::uint16_t*>(data) + i, values_, n);
    return values_;
  }
  // Where to write the elements from i on: their final place, or this block until write().
  float* target(void* data, DType dtype, std::int64_t i) {
    return dtype == DType::bf16 ? values_ : static_cast<float*>(data) + i;
  }
  void write(void* data, DType dtype, std::int64_t i, std::int64_t n) const {
    if (dtype == DType::bf16) loops().folds.narrow(values_, static_cast<std::uint16_t*>(data) + i, n);
  }

 private:
  alignas(64) float values_[block_elements];
};

// Calls f(i, n) for blocks of n <= a quarter of block_elements from i on that cover [0, elements), divided among the
// threads: the widened blocks of two operands and a result leave half of the first cache to the arrays that they
// come from.
template <typename F>
void for_blocks(int threads, std::int64_t elements, const F& f) {
  constexpr std::int64_t part = block_elements / 4;
  parallel(threads, elements, block_elements, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; i += part) f(i, std::min(part, end - i));
  });
}

}  // namespace assay::onednn
