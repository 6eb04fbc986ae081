#include "harness/graph/builder.hpp"
#include "harness/graph/ops/registry.hpp"
#include "harness/graph/ops/rules.hpp"

namespace assay {
namespace {

class MaxPool final : public Op {
 public:
  std::string_view name() const override { return "max_pool"; }
  std::string_view contract() const override {
    return "The maximum over each kernel x kernel window of x (N, C, H, W); padding never wins. If elements "
           "are equal, the first in row-major order within the window wins and gets the gradient. The "
           "output has floor((H + 2 padding - kernel) / stride) + 1 rows. The padding is less than the "
           "kernel. y has the type of x. The saved result argmax is the index of the maximum; the backend "
           "chooses its form.";
  }
  std::vector<Operand> operands() const override { return {{"x", false, Kind::any}}; }
  std::vector<std::string> attributes() const override { return {"kernel", "stride", "padding"}; }
  std::vector<Result> results() const override { return {{"y"}, {"argmax", true, true, true}}; }
  std::vector<TensorType> infer(const Attributes& attributes, std::span<const TensorType> inputs,
                                const std::vector<bool>& present) const override {
    return {infer_pool(Operands(*this, inputs, present), attributes), {}};
  }
  double flops(const Attributes& attributes, std::span<const TensorType>,
               std::span<const TensorType> outputs) const override {
    return static_cast<double>(outputs[0].elements()) * window_elements(attributes);
  }
  std::vector<ValueId> gradient(GraphBuilder& builder, const Node& node,
                                std::span<const ValueId> output_gradients) const override {
    return builder.apply("max_pool_gradient", {output_gradients[0], node.outputs[1], none},
                         pool_gradient_attributes(builder.graph(), node), node.name + ".gradient");
  }
};

class MaxPoolGradient final : public Op {
 public:
  std::string_view name() const override { return "max_pool_gradient"; }
  std::string_view contract() const override {
    return "dx[n,c,h,w] = the sum of dy over the windows whose maximum was (h, w), 0 elsewhere. argmax is "
           "the saved result of max_pool. Attribute size [H, W] is that of x. dx has the type of dy. The "
           "optional operand mask (written by fusion, of the shape and type of dx) is the output of the "
           "ReLU before it: dx is 0 where mask <= 0.";
  }
  std::vector<Operand> operands() const override {
    return {{"dy", false, Kind::any}, {"argmax", false, Kind::index}, {"mask", true, Kind::any}};
  }
  std::vector<std::string> attributes() const override { return {"kernel", "stride", "padding", "size"}; }
  std::vector<Result> results() const override { return {{"dx"}}; }
  std::vector<TensorType> infer(const Attributes& attributes, std::span<const TensorType> inputs,
                                const std::vector<bool>& present) const override {
    return {infer_pool_gradient(Operands(*this, inputs, present), attributes, 2)};
  }
  double flops(const Attributes&, std::span<const TensorType> inputs,
               std::span<const TensorType>) const override {
    return static_cast<double>(inputs[0].elements());
  }
};

}  // namespace

const Op& max_pool_op() {
  static const MaxPool op;
  return op;
}
const Op& max_pool_gradient_op() {
  static const MaxPoolGradient op;
  return op;
}

}  // namespace assay
