// The passes of batch norm over the pixels of one block of channels of one image, compiled like loops.hpp's.
// A block has `lanes` channels that are next to each other: 16, or 1 if the layout has no such blocks.
// Single-threaded.
#pragma once

#include <cstdint>

namespace assay::onednn {

// The positions of the pixels: `pixels` of them, `stride` elements apart.
struct NormRun {
  std::int64_t pixels, stride;
};

// Sums over the channels of a block. `pivot` is near the mean, so sums of differences from it do not cancel.
struct NormSums {
  const float* pivot;
  double *sum, *squares;  // of x - pivot; added to
};

// y = (x - mean) * scale + bias [+ residual] [, then max(y, 0)]
struct NormApply {
  const float *mean, *scale, *bias;
  bool relu;
};

// The dy used is (dy [+ addend]), set to 0 where [activated <= 0] or [recompute: the result of NormApply <=
// 0].
struct NormGradient {
  const float *mean, *scale, *bias;  // scale = weight * inverse_std, bias for `recompute`
  bool recompute;
};
// The sums of dy and of dy * (x - mean) are added to these.
struct NormGradientSums {
  double *dy, *product;
};
// dx = c0 dy - c1 - (x - mean) c2
struct NormGradientApply {
  const float *c0, *c1, *c2;
};

// For elements T: float, or the bits of bfloat16. Null operands are absent.
template <typename T>
struct NormLoops {
  void (*sums)(const NormRun&, const NormSums&, const T* x);
  void (*apply)(const NormRun&, const NormApply&, const T* x, const T* residual, T* y);
  // dy_total may be null, or share memory with dy, addend or activated.
  void (*gradient_sums)(const NormRun&, const NormGradient&, const NormGradientSums&, const T* x, const T* dy,
                        const T* addend, const T* activated, T* dy_total);
  // dx may share memory with any operand.
  void (*gradient_apply)(const NormRun&, const NormGradient&, const NormGradientApply&, const T* x,
                         const T* dy, const T* addend, const T* activated, T* dx);
};

struct NormTable {
  NormLoops<float> f32_block, f32_single;
  NormLoops<std::uint16_t> bf16_block, bf16_single;
};

// The loops of the best instruction set of this CPU.
const NormTable& norm_loops();

extern const NormTable norm_x86_64;
extern const NormTable norm_avx2;
extern const NormTable norm_avx512;
extern const NormTable norm_avx512_bf16;

}  // namespace assay::onednn
