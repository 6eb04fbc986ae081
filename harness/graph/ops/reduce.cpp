#include <fmt/format.h>

#include "harness/graph/builder.hpp"
#include "harness/graph/ops/registry.hpp"
#include "harness/graph/ops/rules.hpp"

namespace assay {
namespace {

const std::string& kind_attribute(const Operands& operands, const Attributes& attributes) {
  const auto& kind = attributes.get<std::string>("kind");
  if (kind != "sum" && kind != "mean" && kind != "max") {
    operands.reject(fmt::format("unknown reduction '{}'; known are sum, mean and max", kind.substr(0, 40)));
  }
  return kind;
}

class Reduce final : public Op {
 public:
  std::string_view name() const override { return "reduce"; }
  std::string_view contract() const override {
    return "The sum, mean or max (attribute kind) of x over the dimensions axes, which are removed: x (N, "
           "C, H, W) over [2, 3] gives y (N, C), which for mean is the global average pool. The axes "
           "ascend. y has the type of x; sums are f32 for bf16 data, and the backend chooses their order. "
           "The maximum is not specified if an element is a NaN.";
  }
  std::vector<Operand> operands() const override { return {{"x", false, Kind::any}}; }
  std::vector<std::string> attributes() const override { return {"kind", "axes"}; }
  std::vector<Result> results() const override { return {{"y"}}; }
  std::vector<TensorType> infer(const Attributes& attributes, std::span<const TensorType> inputs,
                                const std::vector<bool>& present) const override {
    const Operands in(*this, inputs, present);
    in.floating(0);
    kind_attribute(in, attributes);
    return {{in.dtype(0), without(in.shape(0), axes_attribute(in, attributes, in.shape(0).size()))}};
  }
  double flops(const Attributes&, std::span<const TensorType> inputs,
               std::span<const TensorType>) const override {
    return static_cast<double>(inputs[0].elements());
  }
  Kink kink(const Attributes& attributes) const override {
    return attributes.get<std::string>("kind") == "max" ? Kink::choice : Kink::nowhere;
  }
  // The index in x of each maximum.
  std::vector<std::int32_t> choices(const Attributes& attributes, const Shape& x,
                                    std::span<const double> values) const override {
    const auto& axes = attributes.get<std::vector<std::int64_t>>("axes");
    const std::vector<std::int64_t> group = index_without(x, axes);
    std::vector<std::int32_t> first(static_cast<std::size_t>(element_count(without(x, axes))), -1);
    for (std::size_t i = 0; i < values.size(); ++i) {
      std::int32_t& best = first[static_cast<std::size_t>(group[i])];
      if (best < 0 || values[i] > values[static_cast<std::size_t>(best)]) best = static_cast<std::int32_t>(i);
    }
    return first;
  }
  std::vector<ValueId> gradient(GraphBuilder& builder, const Node& node,
                                std::span<const ValueId> output_gradients) const override {
    Attributes attributes = node.attributes;
    attributes.set("shape", builder.graph().value(node.inputs[0]).type.shape);
    const bool max = node.attributes.get<std::string>("kind") == "max";
    return builder.apply("reduce_gradient",
                         {output_gradients[0], max ? node.inputs[0] : none, max ? node.outputs[0] : none},
                         std::move(attributes), node.name + ".gradient");
  }
};

class ReduceGradient final : public Op {
 public:
  std::string_view name() const override { return "reduce_gradient"; }
  std::string_view contract() const override {
    return "dx has the attribute shape and repeats dy along the dimensions axes. sum: dx = dy; mean: dx = "
           "dy / the number of elements that were averaged; max: dx = dy / t where x = y and 0 elsewhere, "
           "where t is the number of elements that share the maximum (PyTorch's amax; max_pool gives all to "
           "the first). x and y are operand and result of the reduce; they are given only for max. All have "
           "one type.";
  }
  std::vector<Operand> operands() const override {
    return {{"dy", false, Kind::any}, {"x", true, Kind::any}, {"y", true, Kind::any}};
  }
  std::vector<std::string> attributes() const override { return {"kind", "axes", "shape"}; }
  std::vector<Result> results() const override { return {{"dx"}}; }
  std::vector<TensorType> infer(const Attributes& attributes, std::span<const TensorType> inputs,
                                const std::vector<bool>& present) const override {
    const Operands in(*this, inputs, present);
    in.floating(0);
    const bool max = kind_attribute(in, attributes) == "max";
    const auto& shape = attributes.get<std::vector<std::int64_t>>("shape");
    check_shape(shape);
    in.shaped(0, without(shape, axes_attribute(in, attributes, shape.size())));
    in.require(in.has(1) == max && in.has(2) == max, "x and y must be given for max, and only for max");
    if (max) {
      in.shaped(1, shape);
      in.same_dtype(1, 0);
      in.same_type(2, 0);
    }
    return {{in.dtype(0), shape}};
  }
  double flops(const Attributes& attributes, std::span<const TensorType> inputs,
               std::span<const TensorType> outputs) const override {
    const auto& kind = attributes.get<std::string>("kind");
    if (kind == "sum") return 0;
    // A mean is divided once and then repeated; a maximum is compared twice.
    return kind == "mean" ? static_cast<double>(inputs[0].elements())
                          : 2 * static_cast<double>(outputs[0].elements());
  }
};

}  // namespace

const Op& reduce_op() {
  static const Reduce op;
  return op;
}
const Op& reduce_gradient_op() {
  static const ReduceGradient op;
  return op;
}

}  // namespace assay
