// The arguments of a node's lowering, and the table of this backend's ops.
#pragma once

#include <array>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/cuda/device.hpp"
#include "backends/cuda/kernels/portable.hpp"
#include "backends/cuda/layout.hpp"
#include "backends/cuda/products.hpp"
#include "harness/engine/kernel_library.hpp"
#include "harness/graph/op.hpp"

namespace assay::cuda {

class BucketExchange;  // backends/cuda/bucket_exchange.hpp

struct Context {
  Device& device;
  bool tf32 = false;
  bool bare = false;                   // mode primitives
  BucketExchange* exchange = nullptr;  // with the other ranks; null for one rank
};

// Borrows everything until the lowering returns.
struct Request {
  Request(Context& context_of, const Graph& graph_of, const Node& node_of, const Offer& offer_of);

  bool has_input(std::size_t i) const { return i < node.inputs.size() && node.inputs[i] != none; }
  bool has_output(std::size_t o) const { return o < node.outputs.size() && node.outputs[o] != none; }
  const Shape& in(std::size_t i) const { return inputs[i].shape; }
  const Shape& out(std::size_t o) const { return outputs[o].shape; }
  // The fused activation.
  bool relu() const { return node.attributes.has("activation"); }
  std::int64_t integer(std::string_view attribute) const {
    return node.attributes.get<std::int64_t>(attribute);
  }
  float number(std::string_view attribute) const {
    return static_cast<float>(node.attributes.number(attribute));
  }

  // The layout of the first of these operands that has one, else the layout that the readers of result 0
  // prefer, else plain.
  Layout follow(std::initializer_list<std::size_t> operands) const;
  Layout follow_all() const;
  // The format that the operand has, else plain: for kernels to which the order of its elements does not matter.
  Format keep(std::size_t operand) const;
  // The layout in which a matrix product or a convolution of this precision is fastest.
  Layout preferred() const;

  Context& context;
  const Graph& graph;
  const Node& node;
  const Offer& offer;
  std::vector<TensorType> inputs, outputs;  // default if absent or opaque
};

// All operands and results in `layout`, opaque ones undecided.
Lowered draft(const Request& request, Layout layout);

// The addresses of the operands and results of a node while it is enqueued.
struct Operands {
  std::vector<void*> inputs, outputs;
  void* scratch = nullptr;

  template <typename T>
  const T* in(std::size_t i) const {
    return i < inputs.size() ? static_cast<const T*>(inputs[i]) : nullptr;
  }
  template <typename T>
  T* out(std::size_t o) const {
    return o < outputs.size() ? static_cast<T*>(outputs[o]) : nullptr;
  }
  // The scratch from `bytes` on.
  template <typename T>
  T* scratch_at(std::int64_t bytes) const {
    return reinterpret_cast<T*>(static_cast<std::byte*>(scratch) + bytes);
  }
};

// Enqueues the work of one node.
using Enqueue = std::function<void(const Operands&)>;
std::unique_ptr<Kernel> make_kernel(Enqueue enqueue, std::string implementation);

// Places parts in a node's scratch, one after the other, each at a multiple of 256 bytes.
class Scratch {
 public:
  std::int64_t add(std::int64_t bytes) {
    const std::int64_t offset = bytes_;
    bytes_ += (bytes + 255) / 256 * 256;
    return offset;
  }
  std::int64_t bytes() const { return bytes_; }

 private:
  std::int64_t bytes_ = 0;
};

// f(float{}) or f(Bf16{}).
template <typename F>
auto with_type(DType dtype, const F& f) {
  return dtype == DType::bf16 ? f(Bf16{}) : f(float{});
}

// An elementwise node in one layout, which overwrites its first operand if possible. body(T{}, at) returns
// the function that for_each() calls with each index; T is the type of that operand, see with_type().
template <typename Body>
Lowered lower_elementwise(const Request& request, Layout layout, const Body& body) {
  Lowered lowered = draft(request, layout);
  lowered.in_place = in_place(request.node);
  const Stream stream = request.context.device.stream();
  lowered.kernel = with_type(request.inputs[0].dtype, [&]<typename T>(T) {
    return make_kernel([stream, body, n = request.outputs[0].elements()](
                           const Operands& at) { for_each(stream, n, body(T{}, at)); },
                       "own:pointwise");
  });
  return lowered;
}

// A tensor of two or more dimensions in row-major order, seen as a matrix of its rows.
struct RowsOfTensor {
  explicit RowsOfTensor(const Shape& shape)
      : rows(element_count(shape) / shape.back()), columns(shape.back()) {}
  std::int64_t rows, columns;
};

// What the node of a product asks for, with the types of operand 0 and result 0: one of many products that
// lie one after the other, or the only one.
MatmulSpec dense_product(const Request& request, std::int64_t m, std::int64_t n, std::int64_t k, bool ta,
                         bool tb);
ConvolutionSpec convolution_of(const Request& request, ConvolutionSpec::Kind kind, const Shape& x,
                               const Shape& y, const Shape& weight, Layout layout);

struct OpEntry {
  std::string_view op;
  Lowered (*lower)(const Request& request);
};

std::span<const OpEntry> activation_ops();
std::span<const OpEntry> all_reduce_ops();
std::span<const OpEntry> attention_ops();
std::span<const OpEntry> clip_ops();
std::span<const OpEntry> convolution_ops();
std::span<const OpEntry> creation_ops();
std::span<const OpEntry> dropout_ops();
std::span<const OpEntry> embedding_ops();
std::span<const OpEntry> linear_ops();
std::span<const OpEntry> local_response_norm_ops();
std::span<const OpEntry> loss_ops();
std::span<const OpEntry> lstm_ops();
std::span<const OpEntry> move_ops();
std::span<const OpEntry> norm_ops();
std::span<const OpEntry> optimizer_ops();
std::span<const OpEntry> pointwise_ops();
std::span<const OpEntry> pool_ops();
std::span<const OpEntry> reduce_ops();
std::span<const OpEntry> row_norm_ops();
std::span<const OpEntry> sequence_ops();
std::span<const OpEntry> softmax_ops();
// Null if this backend does not have the op.
const OpEntry* find_entry(std::string_view op);

// Converts between the layouts of an image or a filter.
std::unique_ptr<Kernel> make_reorder(Context& context, const TensorType& type, Layout from, Layout to);

}  // namespace assay::cuda
