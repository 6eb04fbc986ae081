#include <fmt/format.h>

#include "harness/graph/builder.hpp"
#include "harness/graph/ops/registry.hpp"
#include "harness/graph/ops/rules.hpp"

namespace assay {
namespace {

class Slice final : public Op {
 public:
  std::string_view name() const override { return "slice"; }
  std::string_view contract() const override {
    return "The elements of x whose index along the dimension axis is in [begin, end), 0 <= begin < end. y "
           "has the type and the number of dimensions of x.";
  }
  std::vector<Operand> operands() const override { return {{"x", false, Kind::any}}; }
  std::vector<std::string> attributes() const override { return {"axis", "begin", "end"}; }
  std::vector<Result> results() const override { return {{"y"}}; }
  std::vector<TensorType> infer(const Attributes& attributes, std::span<const TensorType> inputs,
                                const std::vector<bool>& present) const override {
    const Operands in(*this, inputs, present);
    in.floating(0);
    const std::size_t axis = axis_attribute(in, attributes, in.shape(0).size());
    const auto begin = attributes.get<std::int64_t>("begin"), end = attributes.get<std::int64_t>("end");
    if (begin < 0 || begin >= end || end > in.shape(0)[axis]) {
      in.reject(fmt::format("[{}, {}) is not a range within the {} of dimension {}", begin, end,
                            in.shape(0)[axis], axis));
    }
    TensorType y = inputs[0];
    y.shape[axis] = end - begin;
    return {y};
  }
  double flops(const Attributes&, std::span<const TensorType>, std::span<const TensorType>) const override {
    return 0;
  }
  std::vector<ValueId> gradient(GraphBuilder& builder, const Node& node,
                                std::span<const ValueId> output_gradients) const override {
    const auto axis = node.attributes.get<std::int64_t>("axis");
    const Shape& x = builder.graph().value(node.inputs[0]).type.shape;
    return builder.apply("slice_gradient", {output_gradients[0]},
                         {{"axis", axis},
                          {"begin", node.attributes.get<std::int64_t>("begin")},
                          {"size", x[static_cast<std::size_t>(axis)]}},
                         node.name + ".gradient");
  }
};

class SliceGradient final : public Op {
 public:
  std::string_view name() const override { return "slice_gradient"; }
  std::string_view contract() const override {
    return "dx is dy along the dimension axis, starting at the index begin, and 0 elsewhere. Attribute size "
           "is the size of that dimension in dx. dx has the type of dy.";
  }
  std::vector<Operand> operands() const override { return {{"dy", false, Kind::any}}; }
  std::vector<std::string> attributes() const override { return {"axis", "begin", "size"}; }
  std::vector<Result> results() const override { return {{"dx"}}; }
  std::vector<TensorType> infer(const Attributes& attributes, std::span<const TensorType> inputs,
                                const std::vector<bool>& present) const override {
    const Operands in(*this, inputs, present);
    in.floating(0);
    const std::size_t axis = axis_attribute(in, attributes, in.shape(0).size());
    const auto begin = attributes.get<std::int64_t>("begin"), size = attributes.get<std::int64_t>("size");
    TensorType dx = inputs[0];
    dx.shape[axis] = size;
    check_shape(dx.shape);
    if (begin < 0 || begin > size - in.shape(0)[axis]) {
      in.reject(
          fmt::format("{} elements, starting at {}, do not fit into {}", in.shape(0)[axis], begin, size));
    }
    return {dx};
  }
  double flops(const Attributes&, std::span<const TensorType>, std::span<const TensorType>) const override {
    return 0;
  }
  std::vector<ValueId> gradient(GraphBuilder& builder, const Node& node,
                                std::span<const ValueId> output_gradients) const override {
    const auto axis = node.attributes.get<std::int64_t>("axis");
    const auto begin = node.attributes.get<std::int64_t>("begin");
    const Shape& dy = builder.graph().value(node.inputs[0]).type.shape;
    return builder.apply(
        "slice", {output_gradients[0]},
        {{"axis", axis}, {"begin", begin}, {"end", begin + dy[static_cast<std::size_t>(axis)]}},
        node.name + ".gradient");
  }
};

}  // namespace

const Op& slice_op() {
  static const Slice op;
  return op;
}
const Op& slice_gradient_op() {
  static const SliceGradient op;
  return op;
}

}  // namespace assay
