#include "harness/graph/builder.hpp"
#include "harness/graph/ops/op_list.hpp"
#include "harness/graph/ops/rules.hpp"

namespace assay {
namespace {

class Relu final : public Op {
 public:
  std::string_view name() const override { return "relu"; }
  std::string_view contract() const override { return "y = max(x, 0), of any shape. y has the type of x."; }
  std::vector<Operand> operands() const override { return {{"x", false, Kind::any}}; }
  std::vector<Result> results() const override { return {{"y"}}; }
  std::vector<TensorType> infer(const Attributes&, std::span<const TensorType> inputs,
                                const std::vector<bool>& present) const override {
    Operands(*this, inputs, present).floating(0);
    return {inputs[0]};
  }
  double flops(const Attributes&, std::span<const TensorType> inputs,
               std::span<const TensorType>) const override {
    return static_cast<double>(inputs[0].elements());
  }
  std::vector<InPlace> in_place() const override { return {{0, 0}}; }
  std::vector<ValueId> gradient(GraphBuilder& builder, const Node& node,
                                std::span<const ValueId> output_gradients) const override {
    return builder.apply("relu_gradient", {node.outputs[0], output_gradients[0]}, {},
                         node.name + ".gradient");
  }
};

class ReluGradient final : public Op {
 public:
  std::string_view name() const override { return "relu_gradient"; }
  std::string_view contract() const override {
    return "dx = dy where y > 0, else 0: the gradient at 0 is 0. y is the output of the ReLU, not its input. "
           "y, dy and"
           " dx have one shape and type.";
  }
  std::vector<Operand> operands() const override {
    return {{"y", false, Kind::any}, {"dy", false, Kind::any}};
  }
  std::vector<Result> results() const override { return {{"dx"}}; }
  std::vector<TensorType> infer(const Attributes&, std::span<const TensorType> inputs,
                                const std::vector<bool>& present) const override {
    const Operands in(*this, inputs, present);
    in.floating(0);
    in.same_type(1, 0);
    return {inputs[0]};
  }
  double flops(const Attributes&, std::span<const TensorType> inputs,
               std::span<const TensorType>) const override {
    return static_cast<double>(inputs[0].elements());
  }
  std::vector<InPlace> in_place() const override { return {{0, 1}, {0, 0}}; }
};

}  // namespace

const Op& relu_op() {
  static const Relu op;
  return op;
}
const Op& relu_gradient_op() {
  static const ReluGradient op;
  return op;
}

}  // namespace assay
