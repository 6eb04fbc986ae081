// The work that NVIDIA's libraries do for this backend: matrix products, convolutions, batch normalisation, attention and the
// LSTM, described without the libraries' types.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <string>

#include "harness/core/tensor.hpp"

namespace assay::cuda {

// c = a b (+ c or added) (+ bias), then max(c, 0), for each of `batch` products. All row-major: a (m, k) or with ta
// (k, m), b (k, n) or with tb (n, k), c (m, n). Rows are `lda`, `ldb`, `ldc` elements apart, products
// `stride_a`, ... elements: an operand may begin at any multiple of that in a buffer. Sums are f32. bias:
// f32 (n).
struct MatmulSpec {
  std::int64_t m = 0, n = 0, k = 0, batch = 1;
  bool ta = false, tb = false;
  std::int64_t lda = 0, ldb = 0, ldc = 0;
  std::int64_t stride_a = 0, stride_b = 0, stride_c = 0;
  DType operands = DType::f32;  // of a and b: f32 or bf16
  DType result = DType::f32;    // of c: f32, or that of the operands
  bool accumulate = false;      // c is added
  bool added = false;           // another matrix of c's shape and strides is added
  bool bias = false, relu = false;
  bool tf32 = false;
  bool bare = false;  // by the library only
  auto operator<=>(const MatmulSpec&) const = default;
};

// Without gaps; the caller sets types and strides.
inline MatmulSpec row_major_product(std::int64_t m, std::int64_t n, std::int64_t k, bool ta, bool tb) {
  MatmulSpec spec;
  spec.m = m;
  spec.n = n;
  spec.k = k;
  spec.ta = ta;
  spec.tb = tb;
  spec.lda = ta ? m : k;
  spec.ldb = tb ? k : n;
  spec.ldc = n;
  return spec;
}

// The same of products that lie one after the other.
inline MatmulSpec packed_product(std::int64_t m, std::int64_t n, std::int64_t k, bool ta, bool tb) {
  MatmulSpec spec = row_major_product(m, n, k, ta, tb);
  spec.stride_a = m * k;
  spec.stride_b = k * n;
  spec.stride_c = m * n;
  return spec;
}

// One line that names a spec in a list of choices.
std::string text_of(const MatmulSpec& spec);

class Matmul {
 public:
  virtual ~Matmul() = default;
  virtual std::int64_t workspace_bytes() const { return 0; }
  virtual std::string name() const = 0;
  // Enqueues the product. bias: null if the spec has none.
  virtual void run(const void* a, const void* b, const float* bias, void* c, void* workspace) = 0;
  // Of a spec with `added`, which is not c.
  virtual void run_onto(const void* added, const void* a, const void* b, const float* bias, void* c,
                        void* workspace) = 0;
};

// How the window of a convolution moves along one dimension. before, after: the padding at both ends.
struct ConvolutionAxis {
  std::int64_t stride = 1, before = 0, after = 0, dilation = 1;
  auto operator<=>(const ConvolutionAxis&) const = default;
};

// x (N, C, H, W), weight (K, C / groups, R, S), y (N, K, P, Q), all in one layout: with channels_last N, H, W, C
// and K, R, S, C / groups.
struct ConvolutionSpec {
  enum class Kind : std::uint8_t { forward, input_gradient, weight_gradient };
  Kind kind = Kind::forward;
  std::int64_t n = 0, c = 0, h = 0, w = 0, k = 0, r = 0, s = 0, p = 0, q = 0;
  std::int64_t groups = 1;
  ConvolutionAxis rows, columns;
  bool channels_last = false;
  DType operands = DType::f32;
  DType result = DType::f32;        // that of the operands; f32 for a weight gradient
  bool bias = false, relu = false;  // forward: f32 (K)
  bool tf32 = false;
  bool deterministic = false;
  bool bare = false;  // by the first engine that the library's heuristic names, and by nothing else
  auto operator<=>(const ConvolutionSpec&) const = default;
};

std::string text_of(const ConvolutionSpec& spec);

class Convolution {
 public:
  virtual ~Convolution() = default;
  virtual std::int64_t workspace_bytes() const { return 0; }
  virtual std::string name() const = 0;
  // Enqueues the convolution: forward (x, weight) -> y, input_gradient (dy, weight) -> dx, weight_gradient
  // (x, dy) -> dweight.
  virtual void run(const void* a, const void* b, const float* bias, void* result, void* workspace) = 0;
};

// Batch normalisation of x (N, C, H, W) over N, H and W; images are all in one layout. A mask has one bit for each element, in the
// order of memory, the lowest bit of a byte first.
struct NormSpec {
  enum class Kind : std::uint8_t { inference, forward, gradient };
  // What says where the ReLU after it gave 0: a mask, the ReLU's result, or x, from which it is computed again.
  enum class Gate : std::uint8_t { none, mask, activated, recomputed };
  Kind kind = Kind::forward;
  std::int64_t n = 0, c = 0, h = 0, w = 0;
  bool channels_last = false;
  DType operands = DType::f32;  // of all images
  bool added = false;           // another image is added: to y before the ReLU, or to dy
  bool relu = false;            // forward and inference
  bool mask = false;            // forward: a mask of y > 0 is written
  Gate gate = Gate::none;       // gradient
  bool total = false;           // gradient: the sum of both dy after the gate is written, too
  float epsilon = 0;            // forward and inference
  bool deterministic = false;
  auto operator<=>(const NormSpec&) const = default;
  Shape image() const { return {n, c, h, w}; }
  std::int64_t elements() const { return n * c * h * w; }
  std::int64_t mask_bytes() const { return (elements() + 7) / 8; }
  // Whether a library may have it as one graph: of a training, and with no ReLU to compute again, or to read instead of a mask.
  bool is_one_graph() const {
    if (kind == Kind::gradient) return gate == Gate::none || gate == Gate::mask;
    return kind == Kind::forward;
  }
};

// Null where the spec has none. Vectors are f32 (C).
struct NormOperands {
  const void *x = nullptr, *added = nullptr;
  const float *weight = nullptr, *bias = nullptr;  // bias: also of a gradient that computes the ReLU again
  void* y = nullptr;
  std::uint8_t* mask = nullptr;                                      // written by forward, read by a gradient
  float *mean = nullptr, *inverse_std = nullptr;                     // written by forward, read by a gradient
  const float *running_mean = nullptr, *running_variance = nullptr;  // of inference
  const void *dy = nullptr, *activated = nullptr;
  void *dx = nullptr, *dy_total = nullptr;
  float *dweight = nullptr, *dbias = nullptr;
};

std::string text_of(const NormSpec& spec);

class Norm {
 public:
  virtual ~Norm() = default;
  virtual std::int64_t workspace_bytes() const { return 0; }
  virtual std::string name() const = 0;
  // Of our own kernels, whose images may share memory as the op allows. A library's kernel may wait inside for all of its
  // threads to be on the device.
  virtual bool is_own() const { return false; }
  // Enqueues.
  virtual void run(const NormOperands& operands, void* workspace) = 0;
};

// Scaled dot-product attention of q (N, S, H, D), k and v (N, T, G, D), as the op has it. The mask is f32, (mask_samples,
// mask_heads, mask_queries, T).
struct AttentionSpec {
  enum class Kind : std::uint8_t { forward, gradient };
  Kind kind = Kind::forward;
  std::int64_t samples = 0, queries = 0, keys = 0, heads = 0, groups = 0, depth = 0;
  std::int64_t mask_samples = 0, mask_heads = 0,
               mask_queries = 0;  // each 1, or as many as there are; 0: no mask
  bool causal = false;
  bool joined =
      false;  // q, k and v are the heads of one tensor (N, S, H + 2 G, D), and so are their gradients
  float scale = 1;
  bool saved = false;           // forward: logsumexp is written
  DType operands = DType::f32;  // of all but the mask and logsumexp
  bool tf32 = false;
  bool deterministic = false;
  bool bare = false;  // by the library's products only
  auto operator<=>(const AttentionSpec&) const = default;
  bool has_mask() const { return mask_samples > 0; }
  // Elements between the rows of two positions: of q and dq, of k, v, dk and dv, and of y and dy.
  std::int64_t row_of_q() const { return (joined ? heads + 2 * groups : heads) * depth; }
  std::int64_t row_of_k() const { return (joined ? heads + 2 * groups : groups) * depth; }
  std::int64_t row_of_y() const { return heads * depth; }
  // Whether a library may have it as one graph. Not with a mask: a query that sees no key would get no zeros.
  bool is_one_graph() const {
    const bool fits = depth % 8 == 0 && depth <= 128 && keys > 1 && (!causal || queries == keys);
    return operands == DType::bf16 && !has_mask() && !deterministic && !bare && fits;
  }
};

// Null where the spec has none. logsumexp is f32 (N, H, S).
struct AttentionOperands {
  const void *q = nullptr, *k = nullptr, *v = nullptr;
  const float* mask = nullptr;
  void* y = nullptr;           // written by forward, read by a gradient
  float* logsumexp = nullptr;  // the same
  const void* dy = nullptr;
  void *dq = nullptr, *dk = nullptr, *dv = nullptr;
};

// Sets k and v from q, and dk and dv from dq, for a spec whose tensors are joined.
void find_parts(const AttentionSpec& spec, AttentionOperands& operands);

std::string text_of(const AttentionSpec& spec);

class Attention {
 public:
  virtual ~Attention() = default;
  virtual std::int64_t workspace_bytes() const = 0;
  virtual std::string name() const = 0;
  // Of our own kernels, around a library's products if it is large.
  virtual bool is_own() const { return false; }
  // Enqueues.
  virtual void run(const AttentionOperands& operands, void* workspace) = 0;
};

// One layer of LSTM over whole sequences from a state of zeros: x (N, T, F), weight (4H, F), recurrent
// (4H, H), bias f32 (4H), gates in the order input, forget, cell, output; y (N, T, H), with `last` only the
// last step, (N, H).
struct LstmSpec {
  std::int64_t samples = 0, steps = 0, features = 0, units = 0;
  bool last = false;
  bool training = false;        // the reserve is kept for the gradient
  DType operands = DType::f32;  // of x, weight, recurrent, y, and the gradients of x and y
  bool tf32 = false;
  bool deterministic = false;
  bool bare = false;  // by the library only
  auto operator<=>(const LstmSpec&) const = default;
  std::int64_t gates() const { return 4 * units; }
  std::int64_t places() const { return samples * steps; }
};

struct LstmOperands {
  const void *x = nullptr, *weight = nullptr, *recurrent = nullptr;
  const float* bias = nullptr;
};

// Gradients of parameters are f32. dx may be null.
struct LstmGradients {
  void* dx = nullptr;
  float *weight = nullptr, *recurrent = nullptr, *bias = nullptr;
};

std::string text_of(const LstmSpec& spec);

class Lstm {
 public:
  virtual ~Lstm() = default;
  // Bytes of the reserve, which the forward pass writes for the gradient and needs even without one.
  virtual std::int64_t reserve_bytes() const = 0;
  virtual std::int64_t forward_workspace_bytes() const = 0;
  virtual std::int64_t gradient_workspace_bytes() const = 0;
  virtual std::string name() const = 0;
  // Of our own kernels. A library's may wait inside for all of its threads to be on the device.
  virtual bool is_own() const { return false; }
  // Both enqueue. The gradient reads the reserve once and may overwrite it.
  virtual void forward(const LstmOperands& operands, void* y, void* reserve, void* workspace) = 0;
  virtual void gradient(const LstmOperands& operands, const void* dy, void* reserve,
                        const LstmGradients& gradients, void* workspace) = 0;
};

}  // namespace assay::cuda
