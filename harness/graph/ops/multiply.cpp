#include "harness/graph/builder.hpp"
#include "harness/graph/ops/registry.hpp"
#include "harness/graph/ops/rules.hpp"

namespace assay {
namespace {

class Multiply final : public Op {
 public:
  std::string_view name() const override { return "multiply"; }
  std::string_view contract() const override {
    return "y = a * b, elementwise. b has the shape of a or is a scalar; other broadcasting is not "
           "supported. a, b and y have one type.";
  }
  std::vector<Operand> operands() const override {
    return {{"a", false, Kind::any}, {"b", false, Kind::any}};
  }
  std::vector<Result> results() const override { return {{"y"}}; }
  std::vector<TensorType> infer(const Attributes&, std::span<const TensorType> inputs,
                                const std::vector<bool>& present) const override {
    const Operands in(*this, inputs, present);
    in.floating(0);
    in.same_dtype(1, 0);
    in.require(in.shape(1).empty() || in.shape(1) == in.shape(0),
               "b must have the shape of a or be a scalar");
    return {inputs[0]};
  }
  double flops(const Attributes&, std::span<const TensorType> inputs,
               std::span<const TensorType>) const override {
    return static_cast<double>(inputs[0].elements());
  }
  std::vector<InPlace> in_place() const override { return {{0, 0}}; }
  std::vector<ValueId> gradient(GraphBuilder& builder, const Node& node,
                                std::span<const ValueId> output_gradients) const override {
    const ValueId a = node.inputs[0], b = node.inputs[1], dy = output_gradients[0];
    const Shape shape = builder.graph().value(a).type.shape;
    const bool scaled = builder.graph().value(b).type.shape != shape;
    const ValueId da = builder.apply("multiply", {dy, b}, {}, node.name + ".gradient_a")[0];
    if (!scaled) return {da, builder.apply("multiply", {dy, a}, {}, node.name + ".gradient_b")[0]};
    const Attributes vector{{"shape", Shape{element_count(shape)}}};
    const ValueId left = builder.apply("reshape", {dy}, vector, node.name + ".gradient_y_vector")[0];
    const ValueId right = builder.apply("reshape", {a}, vector, node.name + ".a_vector")[0];
    return {da, builder.apply("dot", {left, right}, {}, node.name + ".gradient_b")[0]};
  }
};

}  // namespace

const Op& multiply_op() {
  static const Multiply op;
  return op;
}

}  // namespace assay
