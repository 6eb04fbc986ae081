#include "backends/reference/reference_library.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "backends/reference/bf16.hpp"
#include "backends/reference/body.hpp"
#include "backends/reference/tf32.hpp"
#include "harness/worker/backend.hpp"

namespace assay::reference {
namespace {

const OpEntry* find_entry(std::string_view op) {
  for (const auto list : {convolution_ops(), linear_ops(),     pool_ops(),
                          pointwise_ops(),   dropout_ops(),    loss_ops(),
                          norm_ops(),        embedding_ops(),  lstm_ops(),
                          optimizer_ops(),   activation_ops(), move_ops(),
                          matmul_ops(),      reduce_ops(),     softmax_ops(),
                          attention_ops(),   row_norm_ops(),   sequence_ops(),
                          clip_ops(),        all_reduce_ops(), local_response_norm_ops(),
                          prelu_ops()}) {
    for (const OpEntry& entry : list) {
      if (entry.op == op) return &entry;
    }
  }
  return nullptr;
}

bool is_float(DType dtype) { return dtype == DType::f64 || dtype == DType::f32 || dtype == DType::bf16; }

template <typename To, typename From>
void copy(ThreadPool& pool, const void* source, void* target, std::int64_t elements) {
  const auto* from = static_cast<const From*>(source);
  auto* to = static_cast<To*>(target);
  pool.run(elements, grain, [=](int, std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) to[i] = static_cast<To>(from[i]);
  });
}

// An operand or result whose dtype is not T: it is converted in an array of T in the scratch.
struct Bridge {
  std::size_t place = 0;
  TensorType type;
  std::int64_t offset = 0;  // elements of T into the scratch
  bool tf32 = false;        // round the operand
};

// Runs a body with element type T, whatever the dtypes of the graph.
template <typename T>
class ReferenceKernel final : public Kernel {
 public:
  // The first `tf32_operands` operands are rounded to TF32.
  ReferenceKernel(Body<T> body, const Context& context, int tf32_operands)
      : body_(std::move(body)), pool_(context.pool) {
    elements_ = body_.scratch_elements;
    add_bridges(context.inputs, context.node.inputs, in_bridges_);
    add_bridges(context.outputs, context.node.outputs, out_bridges_);
    inputs_.resize(context.node.inputs.size());
    outputs_.resize(context.node.outputs.size());
    for (Bridge& bridge : in_bridges_) bridge.tf32 = bridge.place < static_cast<std::size_t>(tf32_operands);
  }

  std::int64_t scratch_bytes() const { return elements_ * static_cast<std::int64_t>(sizeof(T)); }

  void bind(std::span<void* const> inputs, std::span<void* const> outputs, void* scratch) override {
    std::ranges::copy(inputs, inputs_.begin());
    std::ranges::copy(outputs, outputs_.begin());
    scratch_ = static_cast<T*>(scratch);
    for (Bridge& bridge : in_bridges_) narrow_in_[index(bridge, in_bridges_)] = inputs_[bridge.place];
    for (Bridge& bridge : out_bridges_) narrow_out_[index(bridge, out_bridges_)] = outputs_[bridge.place];
    for (const Bridge& bridge : in_bridges_) inputs_[bridge.place] = scratch_ + bridge.offset;
    for (const Bridge& bridge : out_bridges_) outputs_[bridge.place] = scratch_ + bridge.offset;
  }

  void run() override {
    for (const Bridge& bridge : in_bridges_) {
      const void* narrow = narrow_in_[index(bridge, in_bridges_)];
      T* wide = scratch_ + bridge.offset;
      if (bridge.type.dtype == DType::f64) copy<T, double>(pool_, narrow, wide, bridge.type.elements());
      if (bridge.type.dtype == DType::f32) copy<T, float>(pool_, narrow, wide, bridge.type.elements());
      if (bridge.type.dtype == DType::bf16) widen(narrow, wide, bridge.type.elements());
      if (bridge.tf32) round_to_tf32(wide, bridge.type.elements());
    }
    body_.run({inputs_, outputs_, scratch_});
    for (const Bridge& bridge : out_bridges_) {
      void* narrow = narrow_out_[index(bridge, out_bridges_)];
      const T* wide = scratch_ + bridge.offset;
      if (bridge.type.dtype == DType::f64) copy<double, T>(pool_, wide, narrow, bridge.type.elements());
      if (bridge.type.dtype == DType::f32) copy<float, T>(pool_, wide, narrow, bridge.type.elements());
      if (bridge.type.dtype == DType::bf16) round(wide, narrow, bridge.type.elements());
    }
  }

 private:
  static constexpr DType own = sizeof(T) == 8 ? DType::f64 : DType::f32;

  void add_bridges(std::span<const TensorType> types, std::span<const ValueId> values,
                   std::vector<Bridge>& bridges) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (values[i] == none || !is_float(types[i].dtype) || types[i].dtype == own) continue;
      bridges.push_back({i, types[i], elements_});
      elements_ += types[i].elements();
    }
    (&bridges == &in_bridges_ ? narrow_in_ : narrow_out_).resize(bridges.size());
  }

  static std::size_t index(const Bridge& bridge, const std::vector<Bridge>& bridges) {
    return static_cast<std::size_t>(&bridge - bridges.data());
  }

  void round_to_tf32(T* values, std::int64_t elements) {
    pool_.run(elements, grain, [=](int, std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) values[i] = to_tf32(static_cast<float>(values[i]));
    });
  }

  void widen(const void* source, T* target, std::int64_t elements) {
    const auto* from = static_cast<const Bf16*>(source);
    pool_.run(elements, grain, [=](int, std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) target[i] = static_cast<T>(static_cast<float>(from[i]));
    });
  }

  void round(const T* source, void* target, std::int64_t elements) {
    auto* to = static_cast<Bf16*>(target);
    pool_.run(elements, grain, [=](int, std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) to[i] = Bf16(static_cast<float>(source[i]));
    });
  }

  Body<T> body_;
  ThreadPool& pool_;
  std::int64_t elements_ = 0;
  std::vector<Bridge> in_bridges_, out_bridges_;
  std::vector<void*> narrow_in_, narrow_out_;  // by bridge: the address of the graph's value
  std::vector<void*> inputs_, outputs_;
  T* scratch_ = nullptr;
};

template <typename T>
void fill(Lowered& lowered, Body<T> body, const Context& context, int tf32_operands = 0) {
  for (std::size_t o = 0; o < body.opaque_bytes.size(); ++o) {
    if (body.opaque_bytes[o] > 0) lowered.outputs[o] = {"opaque", body.opaque_bytes[o], nullptr};
  }
  auto kernel = std::make_unique<ReferenceKernel<T>>(std::move(body), context, tf32_operands);
  lowered.scratch_bytes = kernel->scratch_bytes();
  lowered.kernel = std::move(kernel);
}

}  // namespace

std::string ReferenceLibrary::unsupported(const Graph&, const Node& node) const {
  const OpEntry* entry = find_entry(node.op->name());
  if (entry != nullptr && tf32_ && entry->matrix_operands < 0) {
    return fmt::format("[{}] {}: the reference does not emulate TF32 in the op's inner products",
                       node.op->name(), node.name);
  }
  if (entry != nullptr) return {};
  return fmt::format("[{}] {} has no kernel in the reference", node.op->name(), node.name);
}

Lowered ReferenceLibrary::lower(const Graph& graph, NodeId id, const Offer&) {
  const Node& node = graph.node(id);
  const OpEntry* entry = find_entry(node.op->name());
  if (entry == nullptr) throw Unsupported(unsupported(graph, node));
  Context context{node, input_types(graph, node), output_types(graph, node), pool_};
  const auto hide_opaque = [&graph](std::span<const ValueId> values, std::vector<TensorType>& types) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (values[i] != none && graph.value(values[i]).opaque) types[i] = {DType::u8, {}};
    }
  };
  hide_opaque(node.inputs, context.inputs);
  hide_opaque(node.outputs, context.outputs);
  Lowered lowered;
  bool wide = false;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    lowered.inputs.push_back(node.inputs[i] == none ? Format{} : plain(context.inputs[i]));
    wide = wide || context.inputs[i].dtype == DType::f64;
  }
  for (std::size_t o = 0; o < node.outputs.size(); ++o) {
    lowered.outputs.push_back(node.outputs[o] == none ? Format{} : plain(context.outputs[o]));
    wide = wide || context.outputs[o].dtype == DType::f64;
  }
  lowered.in_place = in_place(node);
  if (node.op->view()) {
    lowered.view = true;
    return lowered;
  }
  if (wide) {
    fill(lowered, entry->f64(context), context);
  } else if (tf32_ && entry->matrix_operands > 0) {
    // Products of TF32 numbers are exact in double, and their sum almost: only the rounding of the operands
    // remains.
    context.tf32 = true;
    fill(lowered, entry->f64(context), context, entry->matrix_operands);
  } else {
    fill(lowered, entry->f32(context), context);
  }
  return lowered;
}

std::unique_ptr<Kernel> ReferenceLibrary::reorder(const TensorType& type, const Format& from,
                                                  const Format& to) {
  throw std::logic_error(fmt::format("[reorder] got '{}' and '{}' for {}: the reference has only one format",
                                     from.key, to.key, to_string(type)));
}

std::unique_ptr<KernelLibrary> make_kernel_library(const CompileOptions& options) {
  return std::make_unique<ReferenceLibrary>(options.threads < 1 ? 1 : options.threads,
                                            options.precision.tf32);
}

}  // namespace assay::reference
