#include "harness/graph/builder.hpp"
#include "harness/graph/ops/registry.hpp"
#include "harness/graph/ops/rules.hpp"

namespace assay {
namespace {

// Exponential, subtraction, sum, maximum and division count one each.
constexpr double softmax_flops = 5;
constexpr double softmax_gradient_flops = 4;

class Softmax final : public Op {
 public:
  std::string_view name() const override { return "softmax"; }
  std::string_view contract() const override {
    return "y = e^(x - m) / sum of e^(x - m) over the last dimension of x, where m is its maximum. y has "
           "the shape and type of x; sums are f32 for bf16 data.";
  }
  std::vector<Operand> operands() const override { return {{"x", false, Kind::any}}; }
  std::vector<Result> results() const override { return {{"y"}}; }
  std::vector<TensorType> infer(const Attributes&, std::span<const TensorType> inputs,
                                const std::vector<bool>& present) const override {
    const Operands in(*this, inputs, present);
    in.floating(0);
    in.require(!in.shape(0).empty(), "a scalar has no last dimension");
    return {inputs[0]};
  }
  double flops(const Attributes&, std::span<const TensorType> inputs,
               std::span<const TensorType>) const override {
    return softmax_flops * static_cast<double>(inputs[0].elements());
  }
  std::vector<InPlace> in_place() const override { return {{0, 0}}; }
  std::vector<ValueId> gradient(GraphBuilder& builder, const Node& node,
                                std::span<const ValueId> output_gradients) const override {
    return builder.apply("softmax_gradient", {node.outputs[0], output_gradients[0]}, {},
                         node.name + ".gradient");
  }
};

class SoftmaxGradient final : public Op {
 public:
  std::string_view name() const override { return "softmax_gradient"; }
  std::string_view contract() const override {
    return "dx = y * (dy - the sum of dy * y over the last dimension). y is the output of the softmax. y, "
           "dy and dx have one shape and type; sums are f32 for bf16 data.";
  }
  std::vector<Operand> operands() const override {
    return {{"y", false, Kind::any}, {"dy", false, Kind::any}};
  }
  std::vector<Result> results() const override { return {{"dx"}}; }
  std::vector<TensorType> infer(const Attributes&, std::span<const TensorType> inputs,
                                const std::vector<bool>& present) const override {
    const Operands in(*this, inputs, present);
    in.floating(0);
    in.require(!in.shape(0).empty(), "a scalar has no last dimension");
    in.same_type(1, 0);
    return {inputs[0]};
  }
  double flops(const Attributes&, std::span<const TensorType> inputs,
               std::span<const TensorType>) const override {
    return softmax_gradient_flops * static_cast<double>(inputs[0].elements());
  }
  std::vector<InPlace> in_place() const override { return {{0, 1}}; }
};

}  // namespace

const Op& softmax_op() {
  static const Softmax op;
  return op;
}
const Op& softmax_gradient_op() {
  static const SoftmaxGradient op;
  return op;
}

}  // namespace assay
