// Changes of shape that do not move data: the elements keep their row-major order.
#include <algorithm>

#include "harness/graph/builder.hpp"
#include "harness/graph/ops/registry.hpp"
#include "harness/graph/ops/rules.hpp"

namespace assay {
namespace {

class Flatten final : public Op {
 public:
  std::string_view name() const override { return "flatten"; }
  std::string_view contract() const override {
    return "y (N, the product of the other dimensions of x) with the elements of x in row-major order: "
           "channel, then row, then column. y has the type of x.";
  }
  std::vector<Operand> operands() const override { return {{"x", false, Kind::any}}; }
  std::vector<Result> results() const override { return {{"y"}}; }
  std::vector<TensorType> infer(const Attributes&, std::span<const TensorType> inputs,
                                const std::vector<bool>& present) const override {
    const Operands in(*this, inputs, present);
    in.require(!in.shape(0).empty(), "a scalar cannot be flattened");
    const std::int64_t n = in.shape(0)[0];
    return {{in.dtype(0), {n, inputs[0].elements() / n}}};
  }
  double flops(const Attributes&, std::span<const TensorType>, std::span<const TensorType>) const override {
    return 0;
  }
  std::vector<InPlace> in_place() const override { return {{0, 0}}; }
  bool view() const override { return true; }
  std::vector<ValueId> gradient(GraphBuilder& builder, const Node& node,
                                std::span<const ValueId> output_gradients) const override {
    return builder.apply("reshape", {output_gradients[0]},
                         {{"shape", builder.graph().value(node.inputs[0]).type.shape}},
                         node.name + ".gradient");
  }
};

// The shape with an extent of -1 replaced by the one that makes the count `elements`; unchanged if there is
// none.
Shape completed(Shape shape, std::int64_t elements) {
  const auto open = std::ranges::find(shape, std::int64_t{-1});
  if (open == shape.end()) return shape;
  *open = 1;
  check_shape(shape);
  *open = elements / element_count(shape);
  return shape;
}

class Reshape final : public Op {
 public:
  std::string_view name() const override { return "reshape"; }
  std::string_view contract() const override {
    return "y of the attribute shape with the elements of x in row-major order; the counts are equal. One "
           "extent of the attribute may be -1: it follows from the count. y has the type of x.";
  }
  std::vector<Operand> operands() const override { return {{"x", false, Kind::any}}; }
  std::vector<std::string> attributes() const override { return {"shape"}; }
  std::vector<Result> results() const override { return {{"y"}}; }
  std::vector<TensorType> infer(const Attributes& attributes, std::span<const TensorType> inputs,
                                const std::vector<bool>& present) const override {
    const Operands in(*this, inputs, present);
    const Shape shape = completed(attributes.get<std::vector<std::int64_t>>("shape"), inputs[0].elements());
    check_shape(shape);
    in.require(element_count(shape) == inputs[0].elements(),
               "shape " + to_string(shape) + " has a different number of elements");
    return {{in.dtype(0), shape}};
  }
  double flops(const Attributes&, std::span<const TensorType>, std::span<const TensorType>) const override {
    return 0;
  }
  std::vector<InPlace> in_place() const override { return {{0, 0}}; }
  bool view() const override { return true; }
  std::vector<ValueId> gradient(GraphBuilder& builder, const Node& node,
                                std::span<const ValueId> output_gradients) const override {
    return builder.apply("reshape", {output_gradients[0]},
                         {{"shape", builder.graph().value(node.inputs[0]).type.shape}},
                         node.name + ".gradient");
  }
};

}  // namespace

const Op& flatten_op() {
  static const Flatten op;
  return op;
}
const Op& reshape_op() {
  static const Reshape op;
  return op;
}

}  // namespace assay
