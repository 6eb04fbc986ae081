// What NVIDIA's libraries compute for this backend: matrix products and convolutions, said without their types.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "harness/graph/tensor.hpp"

namespace assay::cuda {

// c = a b (+ c) (+ bias), then max(c, 0), for each of `batch` products. All row-major: a (m, k) or with ta
// (k, m), b (k, n) or with tb (n, k), c (m, n); a row begins `lda`, `ldb`, `ldc` elements behind the last, a
// product `stride_a`, ... behind the last: an operand may begin at any
// multiple of that in a buffer. Sums are f32. bias: f32 (n).
struct MatmulSpec {
  std::int64_t m = 0, n = 0, k = 0, batch = 1;
  bool ta = false, tb = false;
  std::int64_t lda = 0, ldb = 0, ldc = 0;
  std::int64_t stride_a = 0, stride_b = 0, stride_c = 0;
  DType operands = DType::f32;  // of a and b: f32 or bf16
  DType result = DType::f32;    // of c: f32, or as the operands
  bool accumulate = false;
  bool bias = false, relu = false;
  bool tf32 = false;
};

class Matmul {
 public:
  virtual ~Matmul() = default;
  virtual std::int64_t workspace_bytes() const { return 0; }
  virtual std::string name() const = 0;
  // Enqueues it. bias: null where the spec has none.
  virtual void run(const void* a, const void* b, const float* bias, void* c, void* workspace) = 0;
};

// x (N, C, H, W), weight (K, C, R, S), y (N, K, P, Q), all in one layout: with channels_last N, H, W, C and
// K, R, S, C.
struct ConvolutionSpec {
  enum class Kind : std::uint8_t { forward, input_gradient, weight_gradient };
  Kind kind = Kind::forward;
  std::int64_t n = 0, c = 0, h = 0, w = 0, k = 0, r = 0, s = 0, p = 0, q = 0;
  std::int64_t stride = 1, padding = 0;
  bool channels_last = false;
  DType operands = DType::f32;
  DType result = DType::f32;        // as the operands; of a weight gradient f32
  bool bias = false, relu = false;  // forward: f32 (K)
  bool tf32 = false;
  bool deterministic = false;
};

class Convolution {
 public:
  virtual ~Convolution() = default;
  virtual std::int64_t workspace_bytes() const { return 0; }
  virtual std::string name() const = 0;
  // Enqueues it: forward (x, weight) -> y, input_gradient (dy, weight) -> dx, weight_gradient (x, dy) ->
  // dweight.
  virtual void run(const void* a, const void* b, const float* bias, void* result, void* workspace) = 0;
};

}  // namespace assay::cuda
