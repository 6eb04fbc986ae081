// An op of the reference is written once, on plain arrays of one element type, float or double.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "backends/reference/thread_pool.hpp"
#include "harness/graph/graph.hpp"
#include "harness/graph/op.hpp"

namespace assay::reference {

// One execution. Floating-point operands and results are arrays of T, whatever their dtype in the graph (bf16
// is widened before and rounded after); integers are unchanged.
template <typename T>
struct Call {
  std::span<void* const> inputs;
  std::span<void* const> outputs;
  T* scratch = nullptr;

  const T* in(std::size_t i) const { return static_cast<const T*>(inputs[i]); }
  T* out(std::size_t i) const { return static_cast<T*>(outputs[i]); }
  const std::int32_t* integers(std::size_t i) const { return static_cast<const std::int32_t*>(inputs[i]); }
  const std::uint8_t* bytes(std::size_t i) const { return static_cast<const std::uint8_t*>(inputs[i]); }
  std::int32_t* indices(std::size_t i) const { return static_cast<std::int32_t*>(outputs[i]); }
  std::uint8_t* bytes_out(std::size_t i) const { return static_cast<std::uint8_t*>(outputs[i]); }
};

template <typename T>
struct Body {
  std::function<void(const Call<T>&)> run;
  std::int64_t scratch_elements = 0;
  std::vector<std::int64_t> opaque_bytes = {};  // by result, if the op has opaque results
};

// The arguments of a body's constructor. It keeps the pool and copies what it needs of the rest.
struct Context {
  const Node& node;
  std::vector<TensorType> inputs;  // default if absent
  std::vector<TensorType> outputs;
  ThreadPool& pool;
  // TF32: operands of products that the body itself computes are rounded there. The element type is double.
  bool tf32 = false;

  const Shape& in(std::size_t i) const { return inputs[i].shape; }
  const Shape& out(std::size_t i) const { return outputs[i].shape; }
  bool has_input(std::size_t i) const { return i < node.inputs.size() && node.inputs[i] != none; }
  // Whether an activation was fused into the op: a ReLU, unless its contract has others.
  bool activation() const { return node.attributes.has("activation"); }
  bool wants(std::size_t i) const { return i < node.outputs.size() && node.outputs[i] != none; }
};

struct OpEntry {
  std::string_view op;
  Body<float> (*f32)(const Context&);
  Body<double> (*f64)(const Context&);
  // The number of leading operands that are multiplied with each other: TF32 rounds them. -1: the op has
  // inner products that this rounding does not reach, so TF32 is not emulated.
  int matrix_operands = 0;
};

// One list per file of ops.
std::span<const OpEntry> activation_ops();
std::span<const OpEntry> all_reduce_ops();
std::span<const OpEntry> attention_ops();
std::span<const OpEntry> clip_ops();
std::span<const OpEntry> row_norm_ops();
std::span<const OpEntry> sequence_ops();
std::span<const OpEntry> convolution_ops();
std::span<const OpEntry> linear_ops();
std::span<const OpEntry> pool_ops();
std::span<const OpEntry> prelu_ops();
std::span<const OpEntry> pointwise_ops();
std::span<const OpEntry> dropout_ops();
std::span<const OpEntry> local_response_norm_ops();
std::span<const OpEntry> loss_ops();
std::span<const OpEntry> matmul_ops();
std::span<const OpEntry> move_ops();
std::span<const OpEntry> reduce_ops();
std::span<const OpEntry> softmax_ops();
std::span<const OpEntry> norm_ops();
std::span<const OpEntry> embedding_ops();
std::span<const OpEntry> lstm_ops();
std::span<const OpEntry> optimizer_ops();

// y = max(y, 0); a NaN stays a NaN.
template <typename T>
void clip(T* y, std::int64_t elements) {
  for (std::int64_t i = 0; i < elements; ++i) y[i] = y[i] < T(0) ? T(0) : y[i];
}

// dx = 0 where mask <= 0
template <typename T>
void apply_mask(const T* mask, T* dx, std::int64_t elements) {
  for (std::int64_t i = 0; i < elements; ++i) dx[i] = mask[i] <= T(0) ? T(0) : dx[i];
}

// Fewer elements than this are not worth a thread.
inline constexpr std::int64_t grain = 16384;

}  // namespace assay::reference
